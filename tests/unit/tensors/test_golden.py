"""Values, printed texts and promotion as stored from PyTorch (tools/make_tensor_goldens.py)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import rushlight as torch
from tests.tensor_tables import run

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


@pytest.mark.parametrize("left", sorted({t.partition(" ")[0] for t in GOLDEN["promotion"]}))
def test_promotion(left):
    table = {t: d for t, d in GOLDEN["promotion"].items() if t.startswith(left)}
    wrong = {t: d for t, d in table.items() if repr(run(torch, f"({t}).dtype")) != d}
    assert table and not wrong


@pytest.mark.parametrize("text", GOLDEN["reprs"])
def test_repr(text):
    assert repr(run(torch, text)) == GOLDEN["reprs"][text]


@pytest.mark.parametrize("text", GOLDEN["values"])
def test_value(text):
    """Equal texts, but for the last printed digit of a number."""
    ours, theirs = repr(run(torch, text)), GOLDEN["values"][text]
    assert NUMBER.sub("#", ours).split() == NUMBER.sub("#", theirs).split()
    got, want = (list(map(float, NUMBER.findall(s))) for s in (ours, theirs))
    assert got == pytest.approx(want, abs=1.5e-4, rel=1.5e-4)
