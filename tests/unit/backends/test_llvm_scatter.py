"""Scatter grids of the llvm backend against plain loops in the order of the updates."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.backends.llvm.build import build
from rushlight.backends.llvm.caps import find_caps
from rushlight.base.dtypes import bool_, float32, float64, int8, int32, int64
from rushlight.compiler.tile.ir import SCATTER_KINDS, Axis, Buffer, Program, ScatterGrid
from rushlight.ir.scalar import check_index, load
from rushlight.ir.symint import Var
from tests.unit.backends.llvm_run import run

CAPS = find_caps("", 2)


def scatter_program(kind, dtype, rows, updates, width, across=False) -> Program:
    """dest[index[u]] op= value[u]; across: the values lie as [width, updates]."""
    update, lane = Axis("u", updates), Axis("w", width)
    dest = Buffer("dest", dtype, rows * width, "inout")
    index, values = Buffer("index", int64, updates), Buffer("values", dtype, updates * width)
    row = check_index(load(index, update.var), rows, 3)
    at = lane.var * updates + update.var if across else update.var * width + lane.var
    grid = ScatterGrid(update, lane, rows, row, load(values, at), kind, dest)
    sizes = tuple(e for e in (rows, updates, width) if isinstance(e, Var))
    return Program("scatter", (dest, index, values), (), sizes, (grid,), ("",) * 4)


def data(dtype, rows, updates, width, seed=0):
    random = np.random.default_rng(seed)
    dest, values = (random.standard_normal((n, width)) * 3 for n in (rows, updates))
    if dtype.is_floating_point and updates:
        values[updates // 2, 0] = np.nan
    if dtype.kind == "bool":
        dest, values = dest > 0, values > 0
    index = random.integers(0, rows, updates)
    return dest.astype(dtype.np), index, values.astype(dtype.np)


def one_by_one(kind, dest, index, values):
    result = dest.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for u, row in enumerate(index):
            old, new = result[row], values[u]
            result[row] = {
                "set": lambda o, n: n,
                "sum": lambda o, n: o + n,
                "prod": lambda o, n: o * n,
                "max": np.maximum,
                "min": np.minimum,
            }[kind](old, new)
    return result


def scattered(program, arrays, sizes=None, split=1, caps=CAPS):
    (executable,) = build([program], caps)
    given = [np.ascontiguousarray(a).copy() for a in arrays]
    status = run(executable, given, sizes, split=split)
    return given[0], status


@pytest.mark.parametrize("kind", SCATTER_KINDS)
@pytest.mark.parametrize("dtype", [float32, float64, int32, int8], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(5, 200, 1), (40, 300, 37), (3, 17, 64), (9, 11, 5)], ids=str)
def test_updates_are_applied_in_order(kind, dtype, shape):
    arrays = data(dtype, *shape)
    got, status = scattered(scatter_program(kind, dtype, *shape), arrays)
    assert status == 0
    np.testing.assert_array_equal(got, one_by_one(kind, *arrays))


@pytest.mark.parametrize("threads", [1, 2, 5, 64])
def test_the_number_of_instances_and_the_split_change_nothing(threads):
    arrays = data(float32, 30, 500, 70)
    program = scatter_program("sum", float32, 30, 500, 70)
    expected = one_by_one("sum", *arrays)
    for split in (1, 3):
        got, _ = scattered(program, arrays, split=split, caps=find_caps("", threads))
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("override", ["-avx512f", "-avx"])
def test_other_targets_agree(override):
    arrays = data(float32, 8, 50, 21)
    caps = find_caps(override, 2)
    for kind in SCATTER_KINDS:
        got, _ = scattered(scatter_program(kind, float32, 8, 50, 21), arrays, caps=caps)
        np.testing.assert_array_equal(got, one_by_one(kind, *arrays))


@pytest.mark.parametrize("shape", [(30, 50, 20), (1, 5, 1), (4, 0, 3), (0, 0, 3)], ids=str)
def test_symbolic_sizes(shape):
    names = ("R", "U", "W")
    program = scatter_program("sum", float32, *(Var(n, 0) for n in names))
    arrays = data(float32, *shape) if shape[0] else [np.zeros((1, 3), np.float32)] * 3
    got, status = scattered(program, arrays, dict(zip(names, shape, strict=True)))
    assert status == 0
    if shape[0]:
        np.testing.assert_array_equal(got, one_by_one("sum", *arrays))


def test_bool_rows_are_set():
    arrays = data(bool_, 10, 40, 19)
    got, _ = scattered(scatter_program("set", bool_, 10, 40, 19), arrays)
    np.testing.assert_array_equal(got, one_by_one("set", *arrays))


def test_values_that_lie_across_the_rows():
    dest, index, values = data(float32, 10, 40, 19)
    program = scatter_program("sum", float32, 10, 40, 19, across=True)
    got, _ = scattered(program, (dest, index, values.T))
    np.testing.assert_array_equal(got, one_by_one("sum", dest, index, values))


@pytest.mark.parametrize("bad", [-1, 10, 1 << 40])
def test_an_index_out_of_range_is_reported_and_writes_inside(bad):
    arrays = data(float32, 10, 40, 4)
    arrays[1][7] = bad
    _, status = scattered(scatter_program("sum", float32, 10, 40, 4), arrays)
    assert status == 3


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind is 'mean'; allowed are"):
        build([scatter_program("mean", float32, 2, 2, 2)], CAPS)
