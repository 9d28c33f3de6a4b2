"""Map statements: every op and dtype, strides, masks, gathers, tails, on three code paths."""

from __future__ import annotations

import numpy as np
import pytest
from llvm_run import run
from llvm_targets import caps_of, each_target
from numpy_eval import cast as cast_reference
from numpy_eval import expression

from rushlight.backends.llvm.build import build, lower_text
from rushlight.base import dtypes as dt
from rushlight.base.dtypes import ALL_DTYPES, DType, float32, float64, int32, int64
from rushlight.compiler.tile.ir import Axis, Buffer, Grid, Map, Param, Program, Store
from rushlight.ir import scalar as s
from rushlight.ir.symint import Var, floordiv, mod

# No tile program sees a complex number: a pass of the compiler makes two of each.
REAL_DTYPES = tuple(d for d in ALL_DTYPES if d.kind != "complex")

N = 203  # whole vectors, whole turns and a remainder on every target


def samples(dtype: DType, count: int, seed: int = 0) -> np.ndarray:
    """Random values with the nasty ones among them."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.is_integral:
        info = np.iinfo(dtype.np)
        values = rng.integers(info.min, info.max, count, dtype.np, endpoint=True)
        special = [info.min, info.max, 0, 1, 3] + ([-1] if dtype.kind == "int" else [])
    else:
        values = rng.standard_normal(count) * 10.0 ** rng.integers(-5, 9, count)
        with np.errstate(all="ignore"):
            values = values.astype(dtype.np)
        special = [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            0.5,
            1.5,
            2.5,
            -0.5,
            1e-42,
            6e-8,
            65519.9,
            65520.0,
            127.9,
            -128.9,
            2147483648.0,
            -2147483648.0,
            9.3e18,
            1.8e19,
            -1.5,
        ]
    with np.errstate(all="ignore"):
        special = np.array(special).astype(dtype.np)
    special = special[:count]
    values[: len(special)] = special
    rng.shuffle(values)
    return values


def program_of(value: s.E, loads: tuple[Buffer, ...], n: int | Var, axis: Axis) -> Program:
    out = Buffer("out", value.dtype, n, "out")
    sizes = () if isinstance(n, int) else (n,)
    grid = Grid((axis,), (Map((), (Store(out, axis.var, value),)),))
    return Program("map", (*loads, out), (), sizes, (grid,))


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits; NaNs need only both be NaN."""
    with np.errstate(all="ignore"):
        _same(got, want)


def _same(got: np.ndarray, want: np.ndarray) -> None:
    if got.dtype.kind in "fV" or got.dtype.name == "bfloat16":
        nan = np.isnan(want.astype(np.float64))
        assert (np.isnan(got.astype(np.float64)) == nan).all()
        got, want = np.where(nan, 0, got), np.where(nan, 0, want)
    bits = np.dtype(f"u{got.dtype.itemsize}")
    np.testing.assert_array_equal(got.view(bits), want.view(bits))


FLOAT_OPS = "add sub mul div neg abs sqrt floor ceil trunc rint lt le gt ge eq ne".split()
INT_OPS = "add sub mul neg abs idiv irem and or xor not shl shr lt le gt ge eq ne".split()


@each_target
@pytest.mark.parametrize("dtype", [d for d in REAL_DTYPES if d.compute is d], ids=lambda d: d.name)
def test_every_op_gives_numpys_bits(dtype: DType, target: str) -> None:
    n = Var("n", 1)
    axis = Axis("i", n)
    x, y = Buffer("x", dtype, n), Buffer("y", dtype, n)
    a, b = s.load(x, axis.var), s.load(y, axis.var)
    ops = FLOAT_OPS if dtype.is_floating_point else INT_OPS
    if dtype.kind == "bool":
        ops = "and or xor not lt le gt ge eq ne".split()
    unary = "neg abs sqrt floor ceil trunc rint not".split()
    compares = "lt le gt ge eq ne".split()
    values = [
        s.make(op, (a,) if op in unary else (a, b), dt.bool_ if op in compares else dtype)
        for op in ops
    ]
    values.append(s.select(s.lt(a, b), a, b))
    executables = build([program_of(v, (x, y), n, axis) for v in values], caps_of(target))
    left, right = samples(dtype, N, 1), samples(dtype, N, 2)
    if not dtype.is_floating_point and dtype.kind != "bool":
        right[::3] = np.arange(len(right[::3])) % 40  # small shifts and divisors
    env = {"i": np.arange(N), "n": N}
    for value, executable in zip(values, executables, strict=True):
        got = np.zeros(N, value.dtype.np)
        run(executable, [left, right, got], {"n": N}, split=2)
        want = expression(value, env, {x: left, y: right}, {})
        same(got, want.astype(value.dtype.np))


@each_target
@pytest.mark.parametrize("source", REAL_DTYPES, ids=lambda d: d.name)
def test_every_cast(source: DType, target: str) -> None:
    n = Var("n", 1)
    axis = Axis("i", n)
    x = Buffer("x", source, n)
    goals = [d for d in REAL_DTYPES if d is not source]
    executables = build(
        [program_of(s.cast(s.load(x, axis.var), g), (x,), n, axis) for g in goals], caps_of(target)
    )
    array = samples(source, N)
    for goal, executable in zip(goals, executables, strict=True):
        got = np.zeros(N, goal.np)
        run(executable, [array, got], {"n": N})
        with np.errstate(all="ignore"):
            same(got, cast_reference(array, source, goal))


@each_target
@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16], ids=lambda d: d.name)
def test_16_bit_floats_round_trip_every_pattern(dtype: DType, target: str) -> None:
    count = 1 << 16
    axis = Axis("i", count)
    x = Buffer("x", dtype, count)
    widen = s.cast(s.load(x, axis.var), float32)
    patterns = np.arange(count, dtype=np.uint16).view(dtype.np)
    up, back = build(
        [program_of(widen, (x,), count, axis), program_of(s.cast(widen, dtype), (x,), count, axis)],
        caps_of(target),
    )
    wide, narrow = np.zeros(count, np.float32), np.zeros(count, dtype.np)
    run(up, [patterns, wide])
    run(back, [patterns, narrow])
    same(wide, patterns.astype(np.float32))
    same(narrow, patterns)


def test_fma_without_the_instruction_rounds_once() -> None:
    count = 1 << 16
    rng = np.random.default_rng(3)
    axis = Axis("i", count)
    buffers = tuple(Buffer(name, float32, count) for name in "xyz")
    value = s.fma(*(s.load(b, axis.var) for b in buffers))
    arrays = [rng.standard_normal(count).astype(np.float32) for _ in buffers]
    arrays[2] = (-arrays[0] * arrays[1] * (1 + rng.integers(-2, 3, count) * 2.0**-24)).astype(
        np.float32
    )
    arrays[0][:4], arrays[2][:4] = [np.inf, np.nan, 1e30, 1e-30], [-np.inf, 1, 1, 1e-45]
    results = []
    for target in ("host", "generic"):
        got = np.zeros(count, np.float32)
        run(build([program_of(value, buffers, count, axis)], caps_of(target))[0], [*arrays, got])
        results.append(got)
    same(*results)


@each_target
@pytest.mark.parametrize("static", [True, False])
def test_strides_broadcasts_and_transposes(target: str, static: bool) -> None:
    rows, cols = 19, 37
    m, n = (rows, cols) if static else (Var("m", 1), Var("n", 1))
    i, j = Axis("i", m), Axis("j", n)
    x, v, w = Buffer("x", float32, m * n), Buffer("v", float32, n), Buffer("w", float32, m)
    out = Buffer("out", float32, m * n, "out")
    turned = s.load(x, j.var * m + i.var)
    value = turned * s.load(v, j.var) + s.load(w, i.var) * s.load(w, 0) - s.load(v, n - 1 - j.var)
    sizes = () if static else (m, n)
    for grid in (
        Grid((i, j), (Map((), (Store(out, i.var * n + j.var, value),)),)),
        Grid((i,), (Map((j,), (Store(out, i.var * n + j.var, value),)),)),
        Grid((), (Map((i, j), (Store(out, i.var * n + j.var, value),)),)),
        Grid((j,), (Map((i,), (Store(out, i.var * n + j.var, value),)),)),
    ):
        executable = build([Program("t", (x, v, w, out), (), sizes, (grid,))], caps_of(target))[0]
        arrays = [samples(float32, k, k) for k in (rows * cols, cols, rows)]
        got = np.zeros(rows * cols, np.float32)
        run(executable, [*arrays, got], {"m": rows, "n": cols}, split=3)
        env = {"i": np.arange(rows)[:, None], "j": np.arange(cols)[None], "m": rows, "n": cols}
        want = expression(value, env, dict(zip((x, v, w), arrays, strict=True)), {})
        same(got, want.ravel())


@each_target
@pytest.mark.parametrize(
    "dtype", [float32, float64, dt.int8, dt.bool_, dt.bfloat16], ids=lambda d: d.name
)
def test_masks_never_touch_what_is_outside(target: str, dtype: DType) -> None:
    """A shifted copy with padding: the buffer ends at an unreadable place in the index space."""
    axis = Axis("i", N)
    x, out = Buffer("x", dtype, N), Buffer("out", dtype, N, "inout")
    inside = s.ge(s.index(axis.var), s.const(40, int64)) & s.lt(
        s.index(axis.var), s.const(90, int64)
    )
    far = 1 << 40  # an address that would fault
    value = s.load(x, axis.var * 1 + (-40), inside, s.const(1, dtype))
    wild = s.load(x, axis.var * 1 + far, s.lt(s.index(axis.var), s.const(0, int64)))
    keep = s.ne(s.index(axis.var), s.const(60, int64))
    value = s.select(inside, value, wild)
    grid = Grid((axis,), (Map((), (Store(out, axis.var, value, keep),)),))
    executable = build([Program("m", (x, out), (), (), (grid,))], caps_of(target))[0]
    array, got = samples(dtype, N), samples(dtype, N, 9)
    want = np.zeros(N, dtype.np)
    want[40:90] = array[:50]
    want[60] = got[60]
    run(executable, [array, got])
    same(got, want)


@each_target
@pytest.mark.parametrize("index_dtype", [int32, int64], ids=lambda d: d.name)
def test_gather_checks_its_index(target: str, index_dtype: DType) -> None:
    rows, width = 11, 21
    table = Buffer("table", float32, rows * width)
    ids = Buffer("ids", index_dtype, N)
    out = Buffer("out", float32, N * width, "out")
    i, j = Axis("i", N), Axis("j", width)
    row = s.as_index(s.check_index(s.load(ids, i.var), rows, 7))
    value = s.load(table, row * width + j.var)
    single = s.load(table, s.as_index(s.check_index(s.load(ids, i.var), rows, 7)))
    flat = Buffer("flat", float32, N, "out")
    programs = [
        Program(
            "rows",
            (table, ids, out),
            (),
            (),
            (Grid((i,), (Map((j,), (Store(out, i.var * width + j.var, value),)),)),),
        ),
        Program(
            "points",
            (table, ids, flat),
            (),
            (),
            (Grid((i,), (Map((), (Store(flat, i.var, single),)),)),),
        ),
    ]
    executables = build(programs, caps_of(target))
    source = samples(float32, rows * width)
    numbers = np.random.default_rng(5).integers(0, rows, N).astype(index_dtype.np)
    for bad in (None, 0, 77, N - 1):
        picked = numbers.copy()
        if bad is not None:
            picked[bad] = -1 if bad else rows
        safe = np.where((picked >= 0) & (picked < rows), picked, 0)
        got = np.zeros(N * width, np.float32)
        assert run(executables[0], [source, picked, got]) == (0 if bad is None else 7)
        same(got, source.reshape(rows, width)[safe].ravel())
        got = np.zeros(N, np.float32)
        assert run(executables[1], [source, picked, got]) == (0 if bad is None else 7)
        same(got, source[safe])


@each_target
def test_index_arithmetic_and_params(target: str) -> None:
    n = Var("n", 1)
    axis = Axis("i", n)
    out = Buffer("out", float32, n, "out")
    x = Buffer("x", float32, n)
    p = s.param("p", float32)
    flag = s.param("flag", dt.bool_)
    half = s.cast(s.param("h", dt.float16), float32)
    folded = s.load(x, mod(axis.var, 7) + floordiv(axis.var, 7))
    position = s.cast(s.index(axis.var * 3 + n), float32)
    value = s.select(flag, folded * p + position, half)
    params = (Param("p", float32), Param("flag", dt.bool_), Param("h", dt.float16))
    grid = Grid((axis,), (Map((), (Store(out, axis.var, value),)),))
    executable = build([Program("p", (x, out), params, (n,), (grid,))], caps_of(target))[0]
    array = samples(float32, N)
    for given in ({"p": 1.5, "flag": True, "h": 2.25}, {"p": 0.0, "flag": False, "h": 2.25}):
        got = np.zeros(N, np.float32)
        run(executable, [array, got], {"n": N}, given)
        want = expression(value, {"i": np.arange(N), "n": N}, {x: array}, given)
        same(got, np.broadcast_to(want, N).astype(np.float32))


@each_target
def test_stores_may_scatter_and_update_in_place(target: str) -> None:
    axis = Axis("i", N)
    x = Buffer("x", float32, N, "inout")
    out = Buffer("out", float32, 3 * N, "inout")
    old = s.load(x, axis.var)
    stores = (Store(x, axis.var, old + 1.0), Store(out, axis.var * 3, old * 2.0))
    executable = build(
        [Program("i", (x, out), (), (), (Grid((axis,), (Map((), stores),)),))], caps_of(target)
    )[0]
    array = np.arange(N, dtype=np.float32)
    got = np.zeros(3 * N, np.float32)
    run(executable, [array, got])
    same(array, np.arange(N, dtype=np.float32) + 1)
    want = np.zeros(3 * N, np.float32)
    want[::3] = 2 * np.arange(N)
    same(got, want)


def test_an_op_that_is_not_basic_is_named() -> None:
    axis = Axis("i", 4)
    x = Buffer("x", float32, 4)
    program = program_of(s.exp(s.load(x, axis.var)), (x,), 4, axis)
    with pytest.raises(TypeError, match="'exp'"):
        build([program], caps_of("host"))


@each_target
@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("dtype", [float32, float64, dt.int8, dt.bfloat16], ids=lambda d: d.name)
def test_transposed_reads_in_whole_blocks(target: str, dtype: DType, static: bool) -> None:
    rows, cols, planes = 70, 100, 2
    m, n = (rows, cols) if static else (Var("m", 1), Var("n", 1))
    p, i, j = Axis("p", planes), Axis("i", m), Axis("j", n)
    x, y = Buffer("x", dtype, planes * m * n), Buffer("y", dtype, planes * m * n)
    out = Buffer("out", dtype, planes * m * n, "out")
    at = (p.var * m + i.var) * n + j.var
    turned = (p.var * n + j.var) * m + i.var
    mean = s.load(x, turned)
    if dtype.compute is dtype:
        mean = mean + s.load(y, turned) * s.load(y, at)
    sizes = () if static else (m, n)
    arrays = [samples(dtype, planes * rows * cols, seed) for seed in (1, 2)]
    env = {
        "p": np.arange(planes)[:, None, None],
        "i": np.arange(rows)[:, None],
        "j": np.arange(cols)[None],
        "m": rows,
        "n": cols,
    }
    want = expression(mean, env, dict(zip((x, y), arrays, strict=True)), {}).ravel()
    for grid in (
        Grid((p, i), (Map((j,), (Store(out, at, mean),)),)),
        Grid((p,), (Map((i, j), (Store(out, at, mean),)),)),
        Grid((p, i, j), (Map((), (Store(out, at, mean),)),)),
    ):
        executable = build([Program("t", (x, y, out), (), sizes, (grid,))], caps_of(target))[0]
        got = np.zeros(planes * rows * cols, dtype.np)
        run(executable, [*arrays, got], {"m": rows, "n": cols}, split=3)
        same(got, want)


@each_target
@pytest.mark.parametrize(
    "dtype", [float32, float64, int32, dt.bool_, dt.bfloat16], ids=lambda d: d.name
)
@pytest.mark.parametrize("masked", [False, True])
def test_backward_reads_are_vectors_turned_round(target: str, dtype: DType, masked: bool) -> None:
    i, x, keep = Axis("i", N), Buffer("x", dtype, N), Buffer("keep", dt.bool_, N)
    mask = (s.load(keep, i.var), s.const(1, dtype)) if masked else ()
    value = s.load(x, N - 1 - i.var, *mask)
    program = program_of(value, (x, keep), N, i)
    assert "masked.gather" not in lower_text(program, caps_of(target))
    executable = build([program], caps_of(target))[0]
    array, kept = samples(dtype, N), np.arange(N) % 3 > 0
    got = np.zeros(N, array.dtype)
    run(executable, [array, kept, got], split=3)
    same(got, np.where(kept, array[::-1], np.ones(N, array.dtype)) if masked else array[::-1])
