"""Sort statements of the llvm backend against numpy's stable sort."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from rushlight.backends.llvm.build import build
from rushlight.backends.llvm.caps import find_caps
from rushlight.base.dtypes import ALL_DTYPES, float32, float64, int64
from rushlight.compiler.tile.ir import Axis, Buffer, Grid, Program, Sort
from rushlight.ir.scalar import load
from rushlight.ir.symint import Var
from tests.unit.backends.llvm_run import run

# No tile program sees a complex number: a pass of the compiler makes two of each.
REAL_DTYPES = tuple(d for d in ALL_DTYPES if d.kind != "complex")

CAPS = find_caps("", 2)
ROWS = 3


def sort_program(dtype, count, descending, by_column=False, first=None) -> Program:
    """positions[row, :] = argsort(keys[row, :]); by_column: keys and positions lie as [n, row].
    first: only so many positions are stored, where they would lie of all."""
    row, over = Axis("row", ROWS), Axis("over", count)
    at = over.var * ROWS + row.var if by_column else row.var * count + over.var
    keys, positions = Buffer("keys", dtype, ROWS * count), Buffer("at", int64, ROWS * count, "out")
    body = (Sort(over, load(keys, at), descending, positions, at, first),)
    sizes = tuple(n for n in (count, first) if isinstance(n, Var))
    return Program("sort", (keys, positions), (), sizes, (Grid((row,), body),))


def some_keys(dtype, count, seed=0):
    """Rows with ties; floats with NaN, infinities and both zeros; the extremes of ints."""
    random = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return random.integers(0, 2, (ROWS, count)).astype(bool)
    if dtype.is_floating_point:
        keys = np.round(random.standard_normal((ROWS, count)) * 8) / 4
        keys[:, ::2] = random.standard_normal(keys[:, ::2].shape)
        special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, -0.0, 0.0])
        at = random.integers(0, max(count, 1), (ROWS, 24))
        for r in range(ROWS if count else 0):
            keys[r, at[r]] = random.choice(special, 24)
        return keys.astype(dtype.np)
    info = np.iinfo(dtype.np)
    keys = random.integers(info.min, info.max, (ROWS, count), dtype.np, endpoint=True)
    keys[:, ::3] = random.integers(0, 5, keys[:, ::3].shape)
    return keys


def expected_order(keys, descending):
    """Stable; NaN is the largest."""
    wide = keys.astype(np.float64) if keys.dtype.kind not in "iub" else keys
    result = []
    for row in wide:
        values = row.tolist()
        key = [(isnan(v), 0 if isnan(v) else v) for v in values]
        # sorted(reverse=True) keeps equal elements in order as well.
        result.append(sorted(range(len(key)), key=key.__getitem__, reverse=descending))
    return np.array(result, np.int64).reshape(keys.shape)


def positions_of(program, keys, caps=CAPS, sizes=None, split=1):
    (executable,) = build([program], caps)
    arrays = [np.ascontiguousarray(keys), np.full(keys.shape, -1, np.int64)]
    assert run(executable, arrays, sizes, split=split) == 0
    return arrays[1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", REAL_DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("count", [40, 300])
def test_order_is_numpys_stable_one(dtype, count, descending):
    keys = some_keys(dtype, count)
    got = positions_of(sort_program(dtype, count, descending), keys)
    assert (got == expected_order(keys, descending)).all()


@pytest.mark.parametrize("count", [0, 1, 2, 7, 63, 64, 65, 66, 1000])
@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_every_length(dtype, count):
    keys = some_keys(dtype, count, seed=count)
    got = positions_of(sort_program(dtype, count, False), keys)
    assert (got == expected_order(keys, False)).all()


def test_a_long_row_of_few_values_is_stable():
    keys = np.random.default_rng(1).integers(0, 3, (ROWS, 70000)).astype(np.int32)
    from_numpy = np.argsort(keys, axis=1, kind="stable")
    program = sort_program(next(d for d in REAL_DTYPES if d.name == "int32"), 70000, False)
    assert (positions_of(program, keys) == from_numpy).all()


@pytest.mark.parametrize("override", ["-avx512f", "-avx"])
def test_other_targets_agree(override):
    caps = find_caps(override, 2)
    for dtype, count in ((float32, 50), (float64, 200)):
        keys = some_keys(dtype, count)
        got = positions_of(sort_program(dtype, count, True), keys, caps)
        assert (got == expected_order(keys, True)).all()


@pytest.mark.parametrize("count", [5, 64, 500])
def test_symbolic_length_and_split_launches(count):
    keys = some_keys(float32, count)
    program = sort_program(float32, Var("n", 0), False)
    got = positions_of(program, keys, sizes={"n": count}, split=ROWS)
    assert (got == expected_order(keys, False)).all()


def test_rows_may_lie_across_memory():
    keys = some_keys(float32, 90)
    turned = positions_of(sort_program(float32, 90, False, by_column=True), keys.T)
    assert (turned.reshape(90, ROWS).T == expected_order(keys, False)).all()


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", REAL_DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("first", [1, 20, 150])
def test_the_first_positions_are_those_of_the_whole_order(dtype, first, descending):
    keys = some_keys(dtype, 1003)
    got = positions_of(sort_program(dtype, 1003, descending, first=first), keys)
    assert (got[:, :first] == expected_order(keys, descending)[:, :first]).all()
    assert (got[:, first:] == -1).all()


@pytest.mark.parametrize("first", [0, 1, 16, 17, 64, 500, 4999, 5000])
@pytest.mark.parametrize("order", ["rising", "falling", "few values", "one value"])
def test_the_first_of_rows_in_any_order(first, order):
    rows = {"rising": np.arange(5000), "falling": -np.arange(5000),
            "few values": np.arange(5000) % 3, "one value": np.zeros(5000)}  # fmt: skip
    keys = np.tile(rows[order].astype(np.float32), (ROWS, 1))
    got = positions_of(sort_program(float32, 5000, False, first=first), keys)
    assert (got[:, :first] == np.argsort(keys, axis=1, kind="stable")[:, :first]).all()


@pytest.mark.parametrize("override", ["", "-avx512f", "-avx"])
def test_the_first_of_a_symbolic_length(override):
    caps = find_caps(override, 2)
    program = sort_program(float32, Var("n", 0), True, first=Var("k", 0))
    for count, first in ((5, 5), (700, 3), (700, 90)):
        keys = some_keys(float32, count)
        got = positions_of(program, keys, caps, sizes={"n": count, "k": first}, split=ROWS)
        assert (got[:, :first] == expected_order(keys, True)[:, :first]).all()
