"""explain: what a line became, as text and as a page, from Python and from the command line."""

import sys

import pytest

import rushlight as torch
from rushlight import cli
from rushlight.engine import origin, watch
from rushlight.engine.explain_html import page

SCRIPT = """\
import sys
import rushlight as torch
x = torch.ones(24, 40)
w = torch.ones(40, 32)
x.tolist(), w.tolist()
y = torch.softmax(x @ w, dim=-1)
z = (y * 2).sum()
print(sys.argv[1:], round(z.item()))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(SCRIPT)
    return path


def test_command_explains_a_line(script, capsys):
    assert cli.main(["explain", f"{script}:6", "--steps", "3"]) == 0
    out = capsys.readouterr().out
    assert "['--steps', '3'] 48" in out
    assert f"{script}:6: 9 values in 2 kernels" in out
    for part in (
        "dot         f32[24, 32]  matmul   k",
        "exp         f32[24, 32]  softmax  k",
        "kept in a place of its own?  yes     shared",
        "same_rows",
        "program rows_exp_reduce_sum_div_float32",
        "GB/s",
        "small.py:6",
    ):
        assert part in out, part
    assert "define void" not in out


def test_command_explains_a_program_for_pytorch(script, capsys):
    script.write_text(SCRIPT.replace("rushlight as ", ""))
    assert cli.main(["explain", f"{script}:6"]) == 0
    assert f"{script}:6: 9 values in 2 kernels" in capsys.readouterr().out


def test_command_shows_the_source_on_request(script, capsys):
    assert cli.main(["explain", "--source", f"{script}:7"]) == 0
    assert "define void" in capsys.readouterr().out


def test_command_writes_a_page(script, tmp_path, capsys):
    target = tmp_path / "out.html"
    assert cli.main(["explain", "--html", str(target), f"{script}:6"]) == 0
    text = target.read_text()
    assert text.startswith("<!doctype html>") and "softmax" in text and "http" not in text
    assert f"wrote {target}" in capsys.readouterr().out


def test_line_without_values_lists_those_that_have_some(script, capsys):
    assert cli.main(["explain", f"{script}:2"]) == 1
    out = capsys.readouterr().out
    assert "no value that was computed was recorded at" in out and f"{script}:7" in out


def test_command_gives_an_overview_and_the_status_of_the_script(tmp_path, capsys):
    path = tmp_path / "fails.py"
    path.write_text(
        "import rushlight as torch\n(torch.ones(3) + 1).tolist()\nraise SystemExit(4)\n"
    )
    assert cli.main(["explain", str(path)]) == 4
    assert "Kernels (the fastest of the runs of each)" in capsys.readouterr().out


def test_missing_script_is_an_error(capsys):
    assert cli.main(["explain", "nowhere.py:3"]) == 2
    assert "there is no file 'nowhere.py'" in capsys.readouterr().err


def test_explain_a_function():
    seen = torch.explain(lambda x: (x * 2).exp(), torch.ones(100))
    assert seen.result.tolist()[0] == pytest.approx(7.389056)
    (kernel,) = seen.kernels.values()
    assert kernel.info.ops == ("mul", "exp")
    assert kernel.best is not None and kernel.best.cost.bytes == 800
    assert kernel.info.name in str(seen)


def test_explain_a_block_and_leave_nothing_behind(fresh_programs):
    (torch.ones(9) * 3).tolist()
    before = len(fresh_programs._families)
    with torch.explain() as seen:
        assert origin.STATE.on
        y = torch.ones(9) * 3
    assert len(seen.kernels) == 1 and y.tolist() == [3.0] * 9
    assert len(fresh_programs._families) == before
    assert not origin.STATE.on and not watch.is_watched()


def test_explanation_holds_no_memory_of_the_program():
    with torch.explain() as seen:
        x = torch.ones(1000) * 2
        x.tolist()
        buffer = x._value().buffer
        y = (x + 1).tolist()
    del x
    assert y[0] == 3.0 and sys.getrefcount(buffer) == 2
    assert seen.kernels


def test_updates_in_place_run_once():
    x = torch.zeros(4, 3)
    x.tolist()
    with torch.explain():
        x.index_add_(0, torch.tensor([1, 1]), torch.ones(2, 3))
        x += 1
    assert x.tolist() == [[1.0] * 3, [3.0] * 3, [1.0] * 3, [1.0] * 3]


def test_page_escapes(tmp_path):
    seen = torch.explain(lambda: torch.ones(3) + 1)
    assert "<buffer" not in page(seen)
