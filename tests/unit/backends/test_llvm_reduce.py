"""Reductions: the canonical bits for every layout, size and target; extremes; positions."""

from __future__ import annotations

import numpy as np
import pytest
from llvm_run import run
from llvm_targets import caps_of, each_target
from numpy_eval import canonical, neighbours
from test_llvm_map import same, samples

from rushlight.backends.llvm.build import build
from rushlight.base import dtypes as dt
from rushlight.base.dtypes import DType, float32, float64, int64
from rushlight.compiler.tile.ir import Axis, Buffer, Grid, Program, Reduce, ReduceItem
from rushlight.ir import scalar as s
from rushlight.ir.symint import Expr, Var

SIZES = (0, 1, 31, 33, 4095, 4097, 20000)


def row_sums(
    layout: str,
    lent: bool,
    m: int | Expr,
    n: int | Expr,
    dtype: DType = float32,
    kind: str = "sum",
    order: str = "canonical",
) -> Program:
    """y[i] = fold over k of x[i, k]; `lent`: i is an axis of the grid, else of the statement."""
    sizes = tuple(v for v in (m, n) if isinstance(v, Var))
    result = int64 if kind.startswith("arg") else dtype
    x, y = Buffer("x", dtype, m * n), Buffer("y", result, m, "out")
    i, k = Axis("i", m), Axis("k", n)
    at = i.var * n + k.var if layout == "rows" else k.var * m + i.var
    item = ReduceItem(kind, s.load(x, at), y, i.var)
    statement = Reduce(() if lent else (i,), (k,), (item,), order)
    grid = Grid((i,) if lent else (), (statement,))
    return Program("sums", (x, y), (), sizes, (grid,))


def reduce_with(program: Program, data: np.ndarray, layout: str, target: str) -> np.ndarray:
    executable = build([program], caps_of(target))[0]
    return run_sums(executable, data, layout)


def run_sums(executable: object, data: np.ndarray, layout: str) -> np.ndarray:
    m, n = data.shape
    got = np.zeros(m, executable.program.buffers[1].dtype.np)
    flat = np.ascontiguousarray(data if layout == "rows" else data.T)
    run(executable, [flat, got], {"m": m, "n": n}, split=2)
    return got


@each_target
@pytest.mark.parametrize("lent", [True, False], ids=["grid", "statement"])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_sums_have_the_canonical_bits(layout: str, lent: bool, target: str) -> None:
    program = row_sums(layout, lent, Var("m", 0), Var("n", 0))
    executable = build([program], caps_of(target))[0]
    rng = np.random.default_rng(1)
    for n in (*SIZES, int(rng.integers(34, 4000)), 4096, 12288):
        for m in (1, 5, 70):
            data = rng.standard_normal((m, n)).astype(np.float32)
            want = np.array([canonical(row) for row in data])
            same(run_sums(executable, data, layout), want)


@each_target
@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("n", [1, 3, 16, 17, 32, 100, 4096, 9000])
def test_static_sizes_have_the_same_bits(layout: str, n: int, target: str) -> None:
    data = np.random.default_rng(n).standard_normal((21, n)).astype(np.float32)
    data[0] = -0.0
    want = np.array([canonical(row) for row in data])
    same(reduce_with(row_sums(layout, True, 21, n), data, layout, target), want)


@each_target
@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize(
    "dtype", [float64, dt.int8, dt.uint8, dt.int32, int64, dt.uint64], ids=lambda d: d.name
)
def test_sums_and_products_of_other_dtypes(dtype: DType, layout: str, target: str) -> None:
    kinds = ("sum", "prod", "max", "min", "argmax", "argmin")
    m, n = Var("m", 0), Var("n", 0)
    programs = [row_sums(layout, True, m, n, dtype, kind) for kind in kinds]
    executables = build(programs, caps_of(target))
    data = np.stack([samples(dtype, 333, seed) for seed in range(19)])
    if dtype is float64:
        data = np.nan_to_num(data, posinf=3.0, neginf=-7.0) * 1e-9
    for kind, executable in zip(kinds, executables, strict=True):
        if kind in ("sum", "prod"):
            want = np.array([canonical(row, kind) for row in data])
        else:
            want = getattr(data, kind)(axis=1)
        same(run_sums(executable, data, layout), want)


@each_target
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_nan_wins_and_the_first_of_equals_is_found(layout: str, target: str) -> None:
    rng = np.random.default_rng(2)
    data = rng.integers(-3, 4, (23, 150)).astype(np.float32)
    data[3, [40, 90]] = np.nan
    data[4] = -np.inf
    data[5] = np.inf
    for kind in ("max", "min", "argmax", "argmin"):
        got = reduce_with(row_sums(layout, True, 23, 150, float32, kind), data, layout, target)
        want = getattr(np, kind)(data, axis=1)
        same(got, want)


@each_target
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_any_and_all(layout: str, target: str) -> None:
    data = np.zeros((40, 97), bool)
    data[3, 5] = data[9] = data[17, 96] = True
    data[20:] = True
    data[33, 96] = False
    for kind in ("any", "all"):
        program = row_sums(layout, True, Var("m", 0), Var("n", 0), dt.bool_, kind)
        executable = build([program], caps_of(target))[0]
        got = run_sums(executable, data, layout)
        np.testing.assert_array_equal(got, getattr(data, kind)(axis=1))
        empty = run_sums(executable, data[:, :0], layout)
        np.testing.assert_array_equal(empty, np.full(40, kind == "all"))


@each_target
@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("order", ["nhwc", "nchw", "nchw_gap"])
def test_several_axes_are_flattened_in_order(order: str, static: bool, target: str) -> None:
    """Sums over batch, height and width for every channel: rows, columns, and rows with gaps."""
    numbers = {"n": 7, "c": 13, "h": 27, "w": 31}
    size = dict(numbers) if static else {k: Var(k, 1) for k in numbers}
    n, c, h, w = (Axis(f"a{k}", size[k]) for k in "nchw")
    pad = 5 if order == "nchw_gap" else 0
    width = size["w"] + pad
    strides = {
        "nhwc": (size["h"] * size["w"] * size["c"], 1, size["w"] * size["c"], size["c"]),
        "nchw": (size["c"] * size["h"] * size["w"], size["h"] * size["w"], size["w"], 1),
        "nchw_gap": (size["c"] * size["h"] * width, size["h"] * width, width, 1),
    }[order]
    at = sum((a.var * k for a, k in zip((n, c, h, w), strides, strict=True)), start=0)
    x = Buffer("x", float32, 10**6)
    total, square = Buffer("t", float32, size["c"], "out"), Buffer("q", float32, size["c"], "out")
    value = s.load(x, at)
    finish = s.acc(float32) * 0.5
    items = (
        ReduceItem("sum", value, total, c.var, finish),
        ReduceItem("sum", value * value, square, c.var),
    )
    sizes = () if static else tuple(size[k] for k in "nchw")
    program = Program(
        "bn", (x, total, square), (), sizes, (Grid((c,), (Reduce((), (n, h, w), items),)),)
    )
    executable = build([program], caps_of(target))[0]
    data = np.random.default_rng(4).standard_normal((7, 13, 27, 31)).astype(np.float32)
    if order == "nhwc":
        stored = np.ascontiguousarray(data.transpose(0, 2, 3, 1))
    else:
        stored = np.full((7, 13, 27, 31 + pad), np.nan, np.float32)
        stored[..., :31] = data
    got = np.zeros(13, np.float32), np.zeros(13, np.float32)
    run(executable, [stored, *got], numbers)
    rows = data.transpose(1, 0, 2, 3).reshape(13, -1)
    same(got[0], np.array([canonical(r) for r in rows]) * np.float32(0.5))
    same(got[1], np.array([canonical(r * r) for r in rows]))


@each_target
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_chunk_results_are_joined_by_neighbours(layout: str, target: str) -> None:
    m, n = Var("m", 0), Var("n", 0)
    executable = build([row_sums(layout, True, m, n, order="tree")], caps_of(target))[0]
    for count in (0, 1, 2, 3, 5, 6, 7, 8, 100):
        data = np.random.default_rng(count).standard_normal((20, count)).astype(np.float32)
        want = np.array([neighbours(list(row), np.add) if count else 0 for row in data])
        same(run_sums(executable, data, layout), want.astype(np.float32))


def test_a_changed_order_is_seen() -> None:
    """The reference of these tests tells orders apart: a plain left fold has other bits."""
    data = np.random.default_rng(0).standard_normal((1, 5000)).astype(np.float32)
    plain = np.add.accumulate(data[0])[-1]
    assert plain != canonical(data[0])
