"""Panels that stay: a kernel that reads what another run packed gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.backends.llvm import kept
from rushlight.backends.llvm.caps import find_caps, split_target
from rushlight.backends.llvm.dot import plan_dot
from rushlight.backends.llvm.store import dump, restore
from rushlight.base.dtypes import bfloat16, float32, float64, int8, int32
from rushlight.compiler.tile.ir import Axis, Buffer, DotGrid, Param, Program, Store
from rushlight.ir.scalar import acc, cast, load, mul, param
from rushlight.ir.symint import Var, floordiv
from tests.unit.backends.dot_cases import (
    AVX512,
    OTHER_SCHEDULES,
    TARGETS,
    Case,
    compile_case,
    inputs,
    matmul,
    same_bits,
)
from tests.unit.backends.llvm_run import aligned, run

TILES = find_caps("+emulated-amx", 2)


@pytest.fixture(autouse=True)
def keep_small_ones(monkeypatch):
    monkeypatch.setattr(kept, "LEAST_BYTES", 1)
    monkeypatch.setattr(kept, "MOST_GROWTH", 1e9)


def check(case: Case, caps=AVX512, schedule=None, sizes=None) -> int:
    """Packed by itself, packed to stay (in parts), and not packed; gives how many sides stay."""
    made = compile_case(case, caps, schedule)
    start = inputs(case, sizes)
    keeps = made.launches[0].keeps

    def result(*panels: int, split: int = 1, packed_from=None) -> np.ndarray:
        arrays = [array.copy() for array in start]
        for number in packed_from or ():
            arrays[number].view(np.uint8)[...] = 0x11  # must not be read
        assert run(made, arrays, sizes, split=split, panels=panels) == 0
        return arrays[-1]

    want = result()
    rooms = [aligned(keep.nbytes) for keep in keeps]
    at = [room.ctypes.data for room in rooms]
    if keeps:
        for split in (3, 1):
            assert same_bits(result(*(place | 1 for place in at), split=split), want)
            sources = [number for keep in keeps for number in keep.sources]
            assert same_bits(result(*at, split=split, packed_from=sources), want)
    return len(keeps)


SHAPES = [(1, 33, 47, 65), (2, 40, 70, 37), (1, 61, 129, 700), (1, 16, 16, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("swapped", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("name", TARGETS)
def test_every_target_and_layout(shape, swapped, name):
    assert check(matmul(*shape, *swapped), TARGETS[name]) == 2


@pytest.mark.parametrize("dtype", [float64, bfloat16, int8])
@pytest.mark.parametrize("swapped", [(0, 0), (0, 1), (1, 0)], ids=str)
def test_every_kind_of_elements(dtype, swapped):
    out = int32 if dtype is int8 else float32 if dtype is bfloat16 else None
    # float32 panels of int8 numbers would be four times as large.
    assert check(matmul(1, 33, 47, 165, *swapped, dtype=dtype, out=out)) in (1, 2)


@pytest.mark.parametrize("schedule", OTHER_SCHEDULES, ids=str)
@pytest.mark.parametrize("batch", [1, 3])
def test_every_schedule(schedule, batch):
    assert check(matmul(batch, 33, 70, 65), schedule=schedule) == 2


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
@pytest.mark.parametrize("swapped", [(0, 0), (0, 1), (1, 0)], ids=str)
def test_tile_registers(shape, swapped):
    case = matmul(*shape, *swapped, dtype=bfloat16, out=float32)
    assert plan_dot(case.grid, split_target(TILES.features), 2)[1].tiles
    assert check(case, TILES) >= 1


def test_rows_that_vary_share_the_panels_of_the_weight():
    rows = Var("rows", 1)
    case = matmul(1, rows, 70, 65)
    for count in (1, 3, 40):
        assert check(case, sizes={"rows": count}) == 1
    keys = {compile_case(matmul(1, m, 70, 640)).launches[0].keeps[1].key for m in (64, 128)}
    assert len(keys) == 1
    others = [matmul(1, 64, 70, 640, tb=True), matmul(1, 64, 71, 640), matmul(1, 64, 70, 641)]
    keys |= {compile_case(other).launches[0].keeps[1].key for other in others}
    assert len(keys) == 4


def changed(b=None, more=(), params=()) -> Case:
    m, n, k = (Axis(name, extent) for name, extent in zip("mnk", (20, 40, 30), strict=True))
    left, right = Buffer("left", float32, 600), Buffer("right", float32, 1200)
    result = Buffer("result", float32, 800, "out")
    y = load(right, k.var * 40 + n.var)
    grid = DotGrid(
        (), m, n, k, load(left, m.var * 30 + k.var), b(y, k.var, n.var), float32,
        (Store(result, m.var * 40 + n.var, acc(float32)),),
    )  # fmt: skip
    return Case(Program("mm", (left, right, *more, result), params, (), (grid,)), grid)


def test_what_is_computed_from_several_buffers_stays_with_all_of_them():
    scales = Buffer("scales", float32, 40)
    case = changed(lambda y, k, n: mul(y, load(scales, n)), (scales,))
    assert check(case) == 2
    assert compile_case(case).launches[0].keeps[1].sources == (1, 2)


def test_what_depends_on_a_number_does_not_stay():
    case = changed(lambda y, k, n: mul(y, param("rate", float32)), (), (Param("rate", float32),))
    assert [keep.sources for keep in compile_case(case).launches[0].keeps] == [(0,)]


def test_packed_numbers_that_would_grow_do_not_stay(monkeypatch):
    codes = Buffer("codes", int8, 600)
    case = changed(lambda y, k, n: cast(load(codes, floordiv(k * 40 + n, 2)), float32), (codes,))
    stays = [(2,) in [keep.sources for keep in compile_case(case).launches[0].keeps]]
    monkeypatch.setattr(kept, "MOST_GROWTH", 2.5)
    stays += [(2,) in [keep.sources for keep in compile_case(case).launches[0].keeps]]
    assert stays == [True, False]


def test_they_are_kept_on_disk_with_the_code():
    case = matmul(1, 33, 47, 65)
    made = compile_case(case)
    assert restore(case.program, dump(made)).launches[0].keeps == made.launches[0].keeps
