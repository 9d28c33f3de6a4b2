"""`rushlight compare`: each verdict is its own, and each can be lost."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.backends.interp import folds
from rushlight.base.config import config
from rushlight.cli import main
from rushlight.testing.backends import compare, page, table
from rushlight.testing.backends.differences import difference

MODEL = """
import rushlight as torch

def make():
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    return model, (torch.randn(4, 6),)
"""


def make():
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Softmax(-1), torch.nn.Linear(8, 3))
    return model, (torch.randn(4, 6),)


def test_two_backends_with_the_same_bits() -> None:
    seen = compare(make, ["llvm", "interp"])
    for result in seen.results:
        assert result.is_right and result.is_deterministic and not result.error
        assert result.against is not None and result.against[1].same_bits
        assert result.first_at == "" and result.times_s and result.peak_bytes > 0
    assert any(name.startswith("grad of 0.weight") for name in seen.results[0].values)
    assert {"0", "1", "2", "model"} <= set(seen.results[0].layers)


def test_a_wrong_result_is_found_and_placed(monkeypatch) -> None:
    """Planted: the interpreter's sums are a hundredth too large, so the softmax is wrong."""
    right = folds.reduce_rows

    def wrong(kind, order, values, lengths):
        found = right(kind, order, values, lengths)
        return found * found.dtype.type(1.01) if kind == "sum" else found

    monkeypatch.setattr(folds, "reduce_rows", wrong)
    seen = compare(make, ["llvm", "interp"])
    good, bad = seen.results
    assert good.is_right and not bad.is_right and bad.is_deterministic
    assert bad.first_at == "1", "the first module that differs is the softmax"
    assert "output" in bad.wrong
    text = table(seen)
    assert "PASS" in text and "FAIL" in text and "interp: output: error" in text


def test_results_that_change_from_run_to_run_are_found(monkeypatch) -> None:
    right, turn = folds.reduce_rows, [0]

    def drifting(kind, order, values, lengths):
        found = right(kind, order, values, lengths)
        turn[0] += 1
        return np.nextafter(found, np.inf) if kind == "sum" and turn[0] % 2 else found

    monkeypatch.setattr(folds, "reduce_rows", drifting)
    seen = compare(make, ["llvm", "interp"])
    assert seen.results[1].is_right, "one rounding is no error"
    assert not seen.results[1].is_deterministic
    assert "DIFFERS" in table(seen)


def test_a_backend_that_is_missing_is_a_verdict() -> None:
    with config.override(c_compiler="no-such-cc"):
        seen = compare(make, ["llvm", "c"])
    assert "no-such-cc" in seen.results[1].error
    assert not seen.is_right and "ERROR" in table(seen)


def test_the_page_has_the_table_and_the_reasons() -> None:
    seen = compare(make, ["llvm", "interp"])
    text = page(seen, "a <title>")
    assert "<td>llvm</td>" in text and "a &lt;title&gt;" in text


@pytest.mark.parametrize(
    ("got", "wanted", "ulp", "first"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0, None),
        ([1.0, np.nextafter(np.float32(2), np.float32(3))], [1.0, 2.0], 1, (1,)),
        ([0.0], [-0.0], 0, (0,)),
        ([1e-45], [-1e-45], 2, (0,)),
        ([np.nan], [np.nan], 0, None),
    ],
)
def test_difference_counts_steps_between_floats(got, wanted, ulp, first) -> None:
    found = difference(np.array(got, np.float32), np.array(wanted, np.float32))
    assert (found.ulp, found.first) == (ulp, first)


@pytest.mark.parametrize("model", [MODEL, MODEL.replace("rushlight as ", "")])
def test_the_command_prints_the_table_and_writes_the_page(tmp_path, capsys, model) -> None:
    script, html = tmp_path / "model.py", tmp_path / "out.html"
    script.write_text(model)
    assert main(["compare", str(script), "--backends", "llvm,interp", "--html", str(html)]) == 0
    out = capsys.readouterr().out
    assert "backend" in out and "llvm" in out and html.exists()


def test_the_command_names_what_is_wrong_with_its_arguments(tmp_path, capsys) -> None:
    script = tmp_path / "model.py"
    script.write_text("x = 1")
    assert main(["compare", str(script)]) == 2
    assert "neither make() nor model and inputs" in capsys.readouterr().err
    assert main(["compare", str(script), "--backends", "nope"]) == 2
    assert "no backend 'nope'" in capsys.readouterr().err
    assert main(["compare", "not-there.py"]) == 2
