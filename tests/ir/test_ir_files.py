"""Every `*.ir` file below this folder: what its pass makes of its input is what it says.

python -m pytest tests/ir             # compare
python -m pytest tests/ir --update    # write the results into the files, then read the diff
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
LEAST_FILES = 3


def load_beside(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


ir_file = load_beside("ir_file")
FILES = sorted(FOLDER.glob("*/*.ir"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_pass_makes_what_the_file_says(path: Path, request) -> None:
    test = ir_file.IrFile.read(path)
    assert test.comment.startswith("# "), "the first line says what the file shows"
    found = test.result()
    if request.config.getoption("--update", default=False):
        test.write(found)
    else:
        assert found == test.expected, "if this is right: pytest tests/ir --update"


@pytest.mark.parametrize("name", ir_file.NAMES)
def test_every_pass_has_files(name: str) -> None:
    assert len(list((FOLDER / name).glob("*.ir"))) >= LEAST_FILES


def test_every_folder_is_a_pass() -> None:
    folders = {path.parent.name for path in FILES}
    assert folders == set(ir_file.NAMES)


def test_a_wrong_expectation_is_found(tmp_path) -> None:
    """The runner itself: one changed character of the expected text fails."""
    source = FILES[0].read_text(encoding="utf-8")
    copy = tmp_path / FILES[0].parent.name / FILES[0].name
    copy.parent.mkdir()
    copy.write_text(source.replace("return", "return ", 1), encoding="utf-8")
    test = ir_file.IrFile.read(copy)
    assert test.result() == test.expected
    copy.write_text(source + "x", encoding="utf-8")
    test = ir_file.IrFile.read(copy)
    assert test.result() != test.expected
