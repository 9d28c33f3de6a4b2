"""Contractions of few rows: packed formats unpack inside, b is read as it lies and asked for."""

from __future__ import annotations

import pytest

from rushlight.backends.llvm import thin
from rushlight.backends.llvm.build import lower
from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.dot import plan_dot
from rushlight.backends.llvm.schedule import DotSchedule, ThinSchedule, choose_schedule
from rushlight.base.dtypes import bfloat16, float32
from rushlight.compiler.tile.ir import Axis, Buffer, DotGrid, Program, Store
from rushlight.ir.scalar import acc, cast, index, load
from rushlight.ir.symint import floordiv, mod
from tests.unit.backends.dot_cases import (
    AVX512,
    TARGETS,
    Case,
    inputs,
    matmul,
    result_of,
    same_bits,
)


def scaled_blocks(m, n, k, groups=1, block=32) -> Case:
    """x[m, k] @ (scale[g, k // block, n] * quants[g, k, n] + k % block), results [m, g, n]."""
    axes = [Axis(x, e) for x, e in zip("gmnk", (groups, m, n, k), strict=True)]
    g, i, j, p = (axis.var for axis in axes)
    x, quants = Buffer("x", float32, m * k), Buffer("quants", float32, groups * k * n)
    blocks = k // block + 1
    scale = Buffer("scale", float32, groups * blocks * n)
    out = Buffer("out", float32, m * groups * n, "out")
    inside = cast(index(mod(p, block)), float32)
    factor = load(scale, (g * blocks + floordiv(p, block)) * n + j)
    b = factor * load(quants, (g * k + p) * n + j) + inside
    store = Store(out, (i * groups + g) * n + j, acc(float32))
    grid = DotGrid(tuple(axes[:1]), *axes[1:], load(x, i * k + p), b, float32, (store,))
    return Case(Program("scaled", (x, quants, scale, out), (), (), (grid,)), grid)


@pytest.mark.parametrize("k", [1, 31, 32, 64, 77])
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("caps", TARGETS.values(), ids=TARGETS)
def test_a_block_of_k_shares_its_scale(m, k, caps):
    """What divides k is unrolled by whole blocks, with the bits of a packed operand."""
    case = scaled_blocks(m, 40, k)
    schedule = choose_schedule(case.grid, split_target(caps.features), 1)
    assert isinstance(schedule, ThinSchedule)
    assert schedule.unroll % 32 == 0 or k <= 32  # there is nothing to divide
    packed = DotSchedule(1, 1, schedule.lanes, 1, schedule.lanes, 8, False, False)
    assert same_bits(result_of(case, caps), result_of(case, caps, packed))


@pytest.mark.parametrize("groups, n", [(3, 64), (5, 96), (6, 16), (4, 70)])
def test_groups_of_columns_are_read_in_place(groups, n):
    """Packed weights lie in groups of columns. The same bits as a group at a time."""
    case = scaled_blocks(1, n, 64, groups)
    grid, schedule = plan_dot(case.grid, split_target(AVX512.features), 2)
    assert isinstance(schedule, ThinSchedule)
    assert bool(grid.batch) == (n >= 64)  # short groups are worth joining
    x, quants, scale, out = inputs(case)
    got = result_of(case, arrays=[x, quants, scale, out]).reshape(groups, n)
    for g in range(groups):
        one = scaled_blocks(1, n, 64)
        parts = [x, quants.reshape(groups, -1)[g].copy(), scale.reshape(groups, -1)[g].copy(), out]
        parts[3] = out.reshape(groups, -1)[g].copy()
        assert same_bits(got[g], result_of(one, arrays=parts).reshape(-1))


@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize("n, k", [(40, 64), (33, 48), (7, 100)])
def test_rows_that_follow_are_asked_for(n, k, dtype, monkeypatch):
    """Rows that lie one after the other are asked for a block ahead; a hint changes no bit."""
    case = matmul(1, 2, n, k, tb=True, dtype=dtype)
    arrays = inputs(case)
    asked = result_of(case, arrays=arrays)
    assert "llvm.prefetch" in str(lower([case.program], AVX512)[0])
    monkeypatch.setattr(thin.ThinEmitter, "_ask_ahead", lambda *_: None)
    assert "llvm.prefetch" not in str(lower([case.program], AVX512)[0])
    assert same_bits(result_of(case, arrays=arrays), asked)
