"""Files that a tool writes are what the tool would write now."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import make_ops_stub

ROOT = Path(__file__).resolve().parents[2]


def load_tool(name: str, folder: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_list_of_the_ops_is_up_to_date():
    written = make_ops_stub.NAMES.read_text(encoding="utf-8")
    assert written == make_ops_stub.names_text(make_ops_stub.declared_ops()), (
        "run: python tools/make_ops_stub.py"
    )


def test_picture_of_what_was_measured_is_that_of_the_table():
    tool = load_tool("plot_measured", "tools")
    rows = tool.rows(tool.README.read_text(encoding="utf-8"))
    assert len(rows) > 15
    assert tool.PICTURE.read_text(encoding="utf-8") == tool.picture(rows), (
        "run: python tools/plot_measured.py"
    )


def test_figures_of_the_table_are_read_with_their_units():
    tool = load_tool("plot_measured", "tools")
    table = """| what | Rushlight | PyTorch 2.13 |
| --- | --: | --: |
| both, in ms | 20 / 10 ms | 0.04 s / 40 ms (another run) |
| rates | 30 / 10 tokens/s | 20 tokens/s |
| alone | 3 s | - |
"""
    assert tool.rows(table) == [("both, in ms", [2.0, 4.0]), ("rates", [1.5, 0.5])]


def test_page_of_what_passes_is_up_to_date():
    tool = load_tool("table", "tests/parity/oracle")
    written = tool.PAGE.read_text(encoding="utf-8")
    assert written == tool.page(tool.read()), "run: python tests/parity/oracle/table.py"


def test_list_of_the_ops_can_be_written_while_it_is_out_of_date(tmp_path):
    """A name in the list that no record has: nothing can be imported, but the tool still runs."""
    tool = ROOT / "tools" / "make_ops_stub.py"
    copy = tmp_path / "tools" / tool.name
    copy.parent.mkdir()
    copy.write_text(tool.read_text(encoding="utf-8"), encoding="utf-8")
    shutil.copytree(ROOT / "rushlight", tmp_path / "rushlight")
    names = tmp_path / "rushlight" / "ops" / "_generated_names.py"
    good = names.read_text(encoding="utf-8")
    names.write_text(good + 'gone = _op("gone")\n', encoding="utf-8")
    subprocess.run([sys.executable, str(copy)], check=True, cwd=tmp_path, env={})
    assert names.read_text(encoding="utf-8") == good
