"""Products whose operand slides: exact matrices, one order of sums, as exact as chains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rushlight.backends.llvm import dot_sliding
from rushlight.backends.llvm.schedule import DotSchedule
from rushlight.backends.llvm.sliding import transforms
from rushlight.base.dtypes import float32, float64, int32
from rushlight.compiler.tile.ir import Axis, Buffer, DotGrid, Program, Store
from rushlight.compiler.tile.text import to_text
from rushlight.compiler.tile.text_parse import parse_program
from rushlight.ir.scalar import acc, load
from rushlight.ir.symint import Var
from tests.unit.backends.dot_cases import AVX512, TARGETS, Case, inputs, result_of, same_bits

FORWARD, BACKWARD = (4, 3), (3, 4)
SCHEDULES = [
    DotSchedule(3, 1, 16, 6, 16, 32, True, False),
    DotSchedule(8, 2, 16, 16, 64, 64, False, False),
    DotSchedule(5, 1, 16, 40, 32, 96, True, True),
    DotSchedule(2, 3, 16, 4, 48, 32, False, True),
]


def sliding(slides, m, groups, steps, ta=False, dtype=float32) -> Case:
    """`groups` of outputs and `steps` of taps of a; b is lines of memory that windows slide along:
    along n for outputs of 4 (a picture's rows), along k for outputs of 3 (a weight's gradient)."""
    outputs, taps = slides
    axes = [Axis(*pair) for pair in (("m", m), ("n", groups * outputs), ("k", steps * taps))]
    i, j, p = (axis.var for axis in axes)
    length = (groups * outputs if outputs == 4 else steps * taps) + 3
    lines = steps if outputs == 4 else groups
    left = Buffer("left", dtype, m * steps * taps)
    right = Buffer("right", dtype, lines * length)
    result = Buffer("result", dtype, m * groups * outputs, "out")
    x = load(left, p * m + i if ta else i * (steps * taps) + p)
    along_n, along_k = p // taps * length + p % taps + j, j // outputs * length + j % outputs + p
    y = load(right, along_n if outputs == 4 else along_k)
    store = Store(result, i * (groups * outputs) + j, acc(dtype))
    grid = DotGrid((), *axes, x, y, dtype, (store,), slides)
    sizes = tuple(size for size in (m, groups, steps) if isinstance(size, Var))
    return Case(Program("mm", (left, right, result), (), sizes, (grid,)), grid)


def plain(case: Case) -> Case:
    """The same product as one chain for each output."""
    grid = replace(case.grid, slides=None)
    return Case(replace(case.program, grids=(grid,)), grid)


@pytest.mark.parametrize("slides", [FORWARD, BACKWARD, (2, 3), (3, 2), (1, 1)])
def test_the_matrices_are_exact(slides):
    found = transforms(*slides)
    outputs, taps = slides
    for d in range(taps):
        for at in range(outputs + taps - 1):
            made = [w[d] * x[at] for w, x in zip(found.w, found.x, strict=True)]
            sums = [sum(a * b for a, b in zip(y, made, strict=True)) for y in found.y]
            assert sums == [int(at == s + d) for s in range(outputs)]
    assert all(v.denominator == 1 for row in found.x for v in row)


def test_too_many_points_are_refused():
    with pytest.raises(ValueError, match="at most 7"):
        transforms(5, 3)


SIZES = [(8, 16, 32), (17, 5, 3), (1, 1, 1), (13, 33, 70), (40, 20, 131)]


@pytest.mark.parametrize("slides", [FORWARD, BACKWARD])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ta", [False, True])
def test_schedules_and_targets_give_equal_bits(slides, size, ta):
    case = sliding(slides, *size, ta=ta)
    arrays = inputs(case)
    expected = result_of(case, arrays=arrays)
    for caps in TARGETS.values():
        assert same_bits(result_of(case, caps, arrays=arrays), expected)
    for schedule in SCHEDULES:
        found = result_of(case, AVX512, schedule, arrays=arrays, split=3)
        assert same_bits(found, expected), schedule


@pytest.mark.parametrize("slides", [FORWARD, BACKWARD])
def test_symbolic_sizes_give_the_bits_of_static_ones(slides):
    names = {"M": 19, "G": 21, "S": 45}
    case = sliding(slides, *names.values())
    arrays = inputs(case)
    symbolic = sliding(slides, *(Var(name, 1) for name in names))
    found = result_of(symbolic, arrays=arrays, sizes=names)
    assert same_bits(found, result_of(case, arrays=arrays))


def test_another_order_of_sums_is_seen(monkeypatch):
    """What the tests above compare does change with the order."""
    case = sliding(FORWARD, 13, 33, 70)
    arrays = inputs(case)
    before = result_of(case, arrays=arrays)
    monkeypatch.setattr(dot_sliding, "CHUNK", 64)
    assert not same_bits(result_of(case, arrays=arrays), before)


@pytest.mark.parametrize("slides", [FORWARD, BACKWARD])
def test_no_less_exact_than_single_chains(slides):
    case = sliding(slides, 64, 64, 192)
    arrays = inputs(case)
    wide = sliding(slides, 64, 64, 192, dtype=float64)
    exact = result_of(plain(wide), arrays=[a.astype(np.float64) for a in arrays])

    def error(found):
        return np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))

    assert error(result_of(case, arrays=arrays)) < error(result_of(plain(case), arrays=arrays))
    in_double = result_of(wide, arrays=[a.astype(np.float64) for a in arrays])
    assert error(in_double) < 1e-14


def test_whole_numbers_are_single_chains():
    case = sliding(FORWARD, 9, 12, 7, dtype=int32)
    assert same_bits(result_of(case), result_of(plain(case)))


@pytest.mark.parametrize("slides", [FORWARD, BACKWARD])
def test_infinities_reach_only_outputs_of_their_windows(slides):
    """A NaN reaches the outputs beside it that come from the same products, and no others."""
    case = sliding(slides, 4, 40, 3)
    left, right, out = inputs(case)
    expected = result_of(case, arrays=[left, right, out]).reshape(4, -1)
    right[20] = np.nan
    found = result_of(case, arrays=[left, right, out]).reshape(4, -1)
    touched = np.isnan(found).any(0)
    assert touched.any() and touched.sum() <= 3 * max(slides)
    np.testing.assert_array_equal(found[:, ~touched], expected[:, ~touched])


def test_the_text_of_a_program_keeps_it():
    program = sliding(BACKWARD, 5, 6, 7).program
    assert parse_program(to_text(program)).grids[0].slides == BACKWARD
