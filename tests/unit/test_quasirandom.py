"""Sobol points: PyTorch's figures, evenness, scrambling, moving in the sequence, refusals."""

import importlib.util

import pytest

import rushlight as torch
from rushlight.quasirandom import SobolEngine

scipy = pytest.mark.skipif(not importlib.util.find_spec("scipy"), reason="needs SciPy's table")


def fixed_bits(high, size, generator=None, device=None):
    """Bits that PyTorch's engine was given too, for the figures below."""
    count = torch.Size(size).numel()
    x = torch.arange(count)
    return ((x * x * 2654435761 >> 13) & 1).reshape(size)


def test_the_first_points():
    engine = SobolEngine(2)
    wanted = [[0, 0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75], [0.375, 0.375]]
    assert engine.draw(5).tolist() == wanted and engine.num_generated == 5
    assert engine.reset().draw().tolist() == wanted[:1]
    assert engine.draw(2).tolist() == wanted[1:3]
    assert engine.reset().fast_forward(3).draw(2, dtype=torch.float64).tolist() == wanted[3:]
    assert repr(engine) == "SobolEngine(dimension=2)"


def test_far_points_are_pytorchs():
    engine = SobolEngine(2).fast_forward(1000)
    engine.draw()
    assert engine.quasi.tolist() == [235929600, 103809024]
    engine.draw(7)
    assert engine.quasi.tolist() == [101711872, 774897664]


@scipy
def test_more_dimensions_are_pytorchs():
    engine = SobolEngine(40).fast_forward(1001)
    assert engine.quasi[::6].tolist() == [
        235929600, 49283072, 173015040, 1064304640, 625999872, 158334976, 911212544,
    ]  # fmt: skip
    assert SobolEngine(21201).draw(8).shape == (8, 21201)


def test_scrambling_is_pytorchs_for_the_same_random_bits(monkeypatch):
    monkeypatch.setattr(torch, "randint", fixed_bits)
    engine = SobolEngine(2, scramble=True, seed=1)
    assert engine.shift.tolist() == [280219942, 791945480]
    assert engine.sobolstate.sum(1).tolist() == [1512066608, 24752731287]
    engine.fast_forward(6)
    assert engine.quasi.tolist() == [797297509, 535962612]


@pytest.mark.parametrize("scramble", [False, True])
def test_every_elementary_box_holds_one_point(scramble):
    points = SobolEngine(2, scramble, seed=3).draw_base2(6)
    for across in range(7):
        sides = torch.tensor([2**across, 2 ** (6 - across)])
        boxes = (points * sides).floor().long()
        assert len(set(map(tuple, boxes.tolist()))) == 64


def test_seeds_repeat():
    first, again, other = (SobolEngine(2, True, seed).draw(4).tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_out_and_what_is_refused():
    engine, out = SobolEngine(1), torch.empty(0)
    assert engine.draw(3, out=out) is out and out.tolist() == [[0], [0.5], [0.75]]
    with pytest.raises(ValueError, match="balance properties"):
        engine.draw_base2(1)
    with pytest.raises(ValueError, match="21201"):
        SobolEngine(0)


def test_without_the_table_more_dimensions_are_refused(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotImplementedError, match="dimension=3.*SciPy"):
        SobolEngine(3)
