"""The interpreter against definitions written out as plain loops."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from rushlight.backends import interp, null
from rushlight.backends.interp.fma import fma
from rushlight.backends.interp.memory import RaceError
from rushlight.base.dtypes import bfloat16, bool_, float32, float64, int8, int32, int64, uint8
from rushlight.compiler.target import BufferSpec, HostCall, KernelCall, Plan
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.verify import InvalidProgram
from rushlight.ir import scalar as s
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import ceildiv, minimum

RNG = np.random.default_rng(3)


def run(program, *arrays, sizes=None, params=None, races=True):
    (executable,) = interp.build([program], interp.find())
    return executable.run(arrays, sizes, params, races)


def grid_program(buffers, grids, sizes=(), params=()):
    return ir.Program("p", tuple(buffers), tuple(params), tuple(sizes), tuple(grids))


def exact_fma(a, b, c, dtype):
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if dtype is np.float64:
        return float(exact)
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(d)) for d in (-np.inf, np.inf)] + [near]
    key = lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.int32)) & 1)  # noqa: E731
    return min(around, key=key)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(dtype) -> None:
    a, b = (RNG.standard_normal((2, 2000))).astype(dtype)
    c = (-(a * b) * (1 + RNG.integers(-3, 4, 2000) * np.finfo(dtype).eps)).astype(dtype)
    c[::2] = RNG.standard_normal(1000).astype(dtype)
    # The product lies halfway between two floats: only the tiny c decides.
    p, q = (12, 12) if dtype is np.float32 else (26, 27)
    a[:2], b[:2] = 1 + 2.0**-p, 1 + 2.0**-q
    c[:2] = [2.0**-120, -(2.0**-120)]
    got = fma(a, b, c)
    for i in range(2000):
        assert got[i] == exact_fma(a[i], b[i], c[i], dtype), (a[i], b[i], c[i])


def canonical_sum(values):
    """tile/ir's [canonical sums], element by element."""
    chunks = []
    for start in range(0, len(values), ir.CHUNK):
        partial = [np.float32(0)] * ir.PARTIALS
        for e, value in enumerate(values[start : start + ir.CHUNK]):
            partial[e % ir.PARTIALS] = partial[e % ir.PARTIALS] + value
        width = ir.PARTIALS
        while width > 1:
            width //= 2
            partial = [partial[i] + partial[i + width] for i in range(width)]
        chunks.append(partial[0])
    while len(chunks) > 1:
        odd = chunks[-1:] if len(chunks) % 2 else []
        chunks = [chunks[i] + chunks[i + 1] for i in range(0, len(chunks) - 1, 2)] + odd
    return chunks[0] if chunks else np.float32(0)


def sum_program(n, rows=2):
    x, y = ir.Buffer("x", float32, rows * n), ir.Buffer("y", float32, rows, "out")
    r, i = ir.Axis("r", rows), ir.Axis("i", n)
    item = ir.ReduceItem("sum", s.load(x, r.var * n + i.var), y, r.var, s.acc(float32) * 1.0)
    return grid_program((x, y), [ir.Grid((r,), (ir.Reduce((), (i,), (item,)),))])


@pytest.mark.parametrize("n", [0, 1, 31, 33, 4096, 4097, 3 * 4096 + 5])
def test_sums_are_canonical(n: int) -> None:
    x = RNG.standard_normal((2, n)).astype(np.float32)
    y = np.empty(2, np.float32)
    assert run(sum_program(n), x.ravel(), y) == 0
    assert y.tolist() == [canonical_sum(row) for row in x]


def test_chunked_sum_then_tree_gives_the_bits_of_one_reduce() -> None:
    n = 3 * 4096 + 77
    x, part = ir.Buffer("x", float32, n), ir.Buffer("part", float32, 4, "scratch")
    y = ir.Buffer("y", float32, 1, "out")
    c, j = ir.Axis("c", 4), ir.Axis("j", 4)
    i = ir.Axis("i", minimum(4096, n - c.var * 4096))
    first = ir.Reduce(
        (), (i,), (ir.ReduceItem("sum", s.load(x, c.var * 4096 + i.var), part, c.var),)
    )
    join = ir.Reduce((), (j,), (ir.ReduceItem("sum", s.load(part, j.var), y, 0),), "tree")
    program = grid_program((x, part, y), [ir.Grid((c,), (first,)), ir.Grid((), (join,))])
    values = RNG.standard_normal(n).astype(np.float32)
    out = np.empty(1, np.float32)
    run(program, values, np.empty(4, np.float32), out)
    assert out[0] == canonical_sum(values)


NAN = np.nan


@pytest.mark.parametrize(
    ("kind", "row", "wanted"),
    [
        ("max", [1, 3, NAN, 2], NAN), ("min", [1, 3, -2, 2], -2), ("prod", [2, 3, 4, 0.5], 12),
        ("argmax", [1, 3, 3, 2], 1), ("argmax", [1, NAN, 3, NAN], 1), ("argmin", [2, 1, 1, 5], 1),
    ],
)  # fmt: skip
def test_other_reductions(kind, row, wanted) -> None:
    x = ir.Buffer("x", float32, 4)
    y = ir.Buffer("y", int64 if kind.startswith("arg") else float32, 1, "out")
    i = ir.Axis("i", 4)
    statement = ir.Reduce((), (i,), (ir.ReduceItem(kind, s.load(x, i.var), y, 0),))
    out = np.empty(1, y.dtype.np)
    run(grid_program((x, y), [ir.Grid((), (statement,))]), np.array(row, np.float32), out)
    np.testing.assert_array_equal(out[0], wanted)


def test_softmax_rows_with_tiles_and_symbolic_sizes() -> None:
    t = Var("T", 1)
    x, y = ir.Buffer("x", float32, 3 * t), ir.Buffer("y", float32, 3 * t, "out")
    row, i, k, j = ir.Axis("row", 3), ir.Axis("i", t), ir.Axis("k", t), ir.Axis("j", t)
    top, total = ir.Local("top", float32, (1,)), ir.Local("total", float32, (1,))
    e = ir.Local("e", float32, (t,))
    body = (
        ir.Reduce((), (i,), (ir.ReduceItem("max", s.load(x, row.var * t + i.var), top, 0),)),
        ir.Map((k,), (ir.Store(e, k.var, s.load(x, row.var * t + k.var) - s.local(top, 0)),)),
        ir.Reduce((), (j,), (ir.ReduceItem("sum", s.local(e, j.var), total, 0),)),
        ir.Map((k,), (ir.Store(y, row.var * t + k.var, s.local(e, k.var) / s.local(total, 0)),)),
    )
    program = grid_program((x, y), [ir.Grid((row,), body)], sizes=(t,))
    values = RNG.standard_normal((3, 7)).astype(np.float32)
    out = np.empty(21, np.float32)
    run(program, values.ravel(), out, sizes={"T": 7})
    shifted = values - values.max(1, keepdims=True)
    wanted = shifted / [[canonical_sum(r)] for r in shifted]
    np.testing.assert_array_equal(out.reshape(3, 7), wanted)


def test_ragged_columns() -> None:
    """130 columns in blocks of 64: the last block is short."""
    x, y = ir.Buffer("x", float32, 5 * 130), ir.Buffer("y", float32, 130, "out")
    block = ir.Axis("b", ceildiv(130, 64))
    lane, r = ir.Axis("c", minimum(64, 130 - block.var * 64)), ir.Axis("r", 5)
    column = block.var * 64 + lane.var
    item = ir.ReduceItem("max", s.load(x, r.var * 130 + column), y, column)
    program = grid_program((x, y), [ir.Grid((block,), (ir.Reduce((lane,), (r,), (item,)),))])
    values = RNG.standard_normal((5, 130)).astype(np.float32)
    out = np.empty(130, np.float32)
    run(program, values.ravel(), out)
    np.testing.assert_array_equal(out, values.max(0))


def test_a_masked_load_reads_nothing_outside() -> None:
    x, y = ir.Buffer("x", float32, 4), ir.Buffer("y", float32, 6, "out")
    i = ir.Axis("i", 6)
    inside = s.lt(s.index(i.var), 4)
    value = s.load(x, i.var, inside, s.const(-1, float32))
    program = grid_program((x, y), [ir.Grid((), (ir.Map((i,), (ir.Store(y, i.var, value),)),))])
    out = np.empty(6, np.float32)
    run(program, np.arange(4, dtype=np.float32), out)
    assert out.tolist() == [0, 1, 2, 3, -1, -1]
    bad = ir.Map((i,), (ir.Store(y, i.var, s.load(x, i.var)),))
    with pytest.raises(IndexError, match="offset 4 of x"):
        run(grid_program((x, y), [ir.Grid((), (bad,))]), np.zeros(4, np.float32), out)


def test_a_masked_store_leaves_the_rest() -> None:
    y = ir.Buffer("y", float32, 6, "inout")
    i = ir.Axis("i", 6)
    store = ir.Store(y, i.var, s.load(y, i.var) * 2.0, s.ge(s.index(i.var), 3))
    out = np.ones(6, np.float32)
    run(grid_program((y,), [ir.Grid((i,), (ir.Map((), (store,)),))]), out)
    assert out.tolist() == [1, 1, 1, 2, 2, 2]


def gather_program():
    x, at = ir.Buffer("x", float32, 5), ir.Buffer("at", int64, 3)
    y = ir.Buffer("y", float32, 3, "out")
    i = ir.Axis("i", 3)
    index = s.check_index(s.load(at, i.var), 5, 7)
    store = ir.Store(y, i.var, s.load(x, s.as_index(index, 0, 4)))
    return grid_program((x, at, y), [ir.Grid((), (ir.Map((i,), (store,)),))])


def test_gather_and_its_index_check() -> None:
    x, out = np.arange(5, dtype=np.float32) * 10, np.empty(3, np.float32)
    assert run(gather_program(), x, np.array([4, 0, 2]), out) == 0
    assert out.tolist() == [40, 0, 20]
    assert run(gather_program(), x, np.array([4, 5, -1]), out) == 7


@pytest.mark.parametrize(
    ("kind", "row", "wanted"),
    [
        ("sum", [1, 2, 3], [1, 3, 6]), ("max", [1, NAN, 3], [1, NAN, NAN]),
        ("argmax", [2, 2, 1], [0, 1, 1]), ("argmax", [1, NAN, 5], [0, 1, 1]),
        ("argmin", [3, 1, 1], [0, 1, 2]), ("prod", [2, 3, 4], [2, 6, 24]),
    ],
)  # fmt: skip
def test_scan(kind, row, wanted) -> None:
    x = ir.Buffer("x", float32, 3)
    y = ir.Buffer("y", int64 if kind.startswith("arg") else float32, 3, "out")
    i = ir.Axis("i", 3)
    statement = ir.Scan((), i, kind, s.load(x, i.var), y, i.var)
    out = np.empty(3, y.dtype.np)
    run(grid_program((x, y), [ir.Grid((), (statement,))]), np.array(row, np.float32), out)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_with_nan_largest(descending: bool) -> None:
    x, y = ir.Buffer("x", float32, 6), ir.Buffer("y", int64, 6, "out")
    i = ir.Axis("i", 6)
    statement = ir.Sort(i, s.load(x, i.var), descending, y, i.var)
    out = np.empty(6, np.int64)
    keys = np.array([1, NAN, 0.0, 1, -0.0, -5], np.float32)
    run(grid_program((x, y), [ir.Grid((), (statement,))]), keys, out)
    wanted = [1, 0, 3, 2, 4, 5] if descending else [5, 2, 4, 0, 3, 1]
    assert out.tolist() == wanted
    first = np.full(6, -1)
    run(grid_program((x, y), [ir.Grid((), (replace(statement, first=2),))]), keys, first)
    assert first.tolist() == [*wanted[:2], -1, -1, -1, -1]


def test_dot_is_one_fma_chain() -> None:
    a, b = ir.Buffer("a", float32, 3 * 9), ir.Buffer("b", bfloat16, 9 * 2)
    y = ir.Buffer("y", float32, 6, "out")
    m, n, k = ir.Axis("m", 3), ir.Axis("n", 2), ir.Axis("k", 9)
    store = ir.Store(y, m.var * 2 + n.var, s.acc(float32) + 1.0)
    grid = ir.DotGrid(
        (), m, n, k, s.load(a, m.var * 9 + k.var), s.load(b, k.var * 2 + n.var), float32, (store,)
    )
    left = RNG.standard_normal((3, 9)).astype(np.float32)
    right = RNG.standard_normal((9, 2)).astype(bfloat16.np)
    out = np.empty(6, np.float32)
    run(grid_program((a, b, y), [grid]), left.ravel(), right.ravel(), out)
    for i in range(3):
        for j in range(2):
            acc = np.float32(0)
            for e in range(9):
                acc = exact_fma(left[i, e], np.float32(right[e, j]), acc, np.float32)
            assert out[i * 2 + j] == acc + np.float32(1)


@pytest.mark.parametrize(
    ("kind", "wanted"), [("sum", [4, 0, 5]), ("set", [3, 0, 2]), ("max", [3, 0, 3])]
)
def test_scatter_goes_in_order_of_the_update(kind, wanted) -> None:
    at, x = ir.Buffer("at", int64, 4), ir.Buffer("x", float32, 4)
    y = ir.Buffer("y", float32, 3, "inout")
    u, w = ir.Axis("u", 4), ir.Axis("w", 1)
    row = s.check_index(s.load(at, u.var), 3, 2)
    grid = ir.ScatterGrid(u, w, 3, row, s.load(x, u.var + w.var), kind, y)
    out = np.zeros(3, np.float32)
    values = np.array([1, 3, 3, 2], np.float32)
    assert run(grid_program((at, x, y), [grid]), np.array([0, 2, 0, 2]), values, out) == 0
    assert out.tolist() == wanted


def test_loop_carries_a_tile() -> None:
    y = ir.Buffer("y", float32, 4, "out")
    g, step = ir.Axis("g", 4), ir.Axis("step", Var("g", 0, 3, "axis") + 1)
    tile = ir.Local("t", float32, (1,))
    body = (
        ir.Map((), (ir.Store(tile, 0, s.const(0, float32)),)),
        ir.Loop(step, (ir.Map((), (ir.Store(tile, 0, s.local(tile, 0) + 2.0),)),)),
        ir.Map((), (ir.Store(y, g.var, s.local(tile, 0)),)),
    )
    out = np.empty(4, np.float32)
    run(grid_program((y,), [ir.Grid((g,), body)]), out)
    assert out.tolist() == [2, 4, 6, 8]


def test_many_instances_are_cut_into_blocks(monkeypatch) -> None:
    monkeypatch.setattr(interp.run, "BLOCK", 8)
    x = RNG.standard_normal((50, 5)).astype(np.float32)
    out = np.empty(50, np.float32)
    run(sum_program(5, rows=50), x.ravel(), out)
    assert out.tolist() == [canonical_sum(row) for row in x]


def test_params_are_inputs() -> None:
    y = ir.Buffer("y", float64, 2, "out")
    i = ir.Axis("i", 2)
    store = ir.Store(y, i.var, s.param("lr", float64) * 2.0)
    program = grid_program(
        (y,), [ir.Grid((), (ir.Map((i,), (store,)),))], params=(ir.Param("lr", float64),)
    )
    out = np.empty(2)
    run(program, out, params={"lr": 0.25})
    assert out.tolist() == [0.5, 0.5]


def neighbour_program(write: int, read: int):
    y = ir.Buffer("y", float32, 8, "inout")
    i = ir.Axis("i", 4)
    store = ir.Store(y, i.var + write, s.load(y, i.var + read))
    return grid_program((y,), [ir.Grid((i,), (ir.Map((), (store,)),))])


def test_races_between_instances_are_seen() -> None:
    assert run(neighbour_program(4, 0), np.zeros(8, np.float32)) == 0
    with pytest.raises(RaceError, match=r"grid 0: an instance writes what another read: y\[1\]"):
        run(neighbour_program(1, 0), np.zeros(8, np.float32))
    assert run(neighbour_program(1, 0), np.zeros(8, np.float32), races=False) == 0
    y = ir.Buffer("y", float32, 8, "out")
    i = ir.Axis("i", 4)
    both = ir.Map((), (ir.Store(y, i.var // 2, s.const(0, float32)),))
    with pytest.raises(RaceError, match="writes what another wrote"):
        run(grid_program((y,), [ir.Grid((i,), (both,))]), np.zeros(8, np.float32))


@pytest.mark.parametrize(
    ("value", "target", "wanted"),
    [
        (300.7, uint8, 44), (-1.5, uint8, 255), (3e9, int32, -(2**31)), (NAN, int64, -(2**63)),
        (-2.9, int8, -2), (0.5, bool_, True), (NAN, bool_, True),
        (-(2.0**31) - 0.5, int32, -(2**31)),
    ],
)  # fmt: skip
def test_casts_are_those_of_x86(value, target, wanted) -> None:
    y = ir.Buffer("y", target, 1, "out")
    store = ir.Store(y, 0, s.cast(s.const(value, float64), target))
    out = np.zeros(1, target.np)
    run(grid_program((y,), [ir.Grid((), (ir.Map((), (store,)),))]), out)
    assert out[0] == wanted


@pytest.mark.parametrize(
    ("a", "b", "quotient", "rest"),
    [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (5, 0, 0, 0), (-(2**31), -1, -(2**31), 0)],
)
def test_integer_division_goes_toward_zero(a, b, quotient, rest) -> None:
    y = ir.Buffer("y", int32, 2, "out")
    x, z = s.const(a, int32), s.const(b, int32)
    stores = (ir.Store(y, 0, s.idiv(x, z)), ir.Store(y, 1, s.irem(x, z)))
    out = np.zeros(2, np.int32)
    run(grid_program((y,), [ir.Grid((), (ir.Map((), stores),))]), out)
    assert out.tolist() == [quotient, rest]


def plan_of(executable, program):
    t = Var("T", 1)
    double = HostCall(lambda i, o: np.multiply(i[0], 2, out=o[0]), (1,), (2,), ((t,), (t,)))
    specs = (
        BufferSpec(float32, 5, "input"),
        BufferSpec(int64, 3, "input"),
        BufferSpec(int64, 3, "temp"),
        BufferSpec(float32, 3, "result"),
    )
    call = KernelCall(executable, (0, 2, 3), (), ())
    return Plan(specs, ((double,), (call,)), ("T",), ("",))


def test_plans_run_on_addresses() -> None:
    program = gather_program()
    (executable,) = interp.BACKEND.build([program], interp.find())
    loaded = interp.BACKEND.load(plan_of(executable, program), interp.find())
    arrays = [
        np.arange(5, dtype=np.float32),
        np.array([0, 2, 1]),
        np.empty(3, np.int64),
        np.empty(3, np.float32),
    ]
    pointers = [a.ctypes.data for a in arrays]
    assert loaded.run(pointers, np.array([3]), ()) == 0
    assert arrays[3].tolist() == [0, 4, 2]
    arrays[1][0] = 9
    assert loaded.run(pointers, np.array([3]), ()) == 7


def test_null_checks_and_runs_nothing() -> None:
    program = gather_program()
    (executable,) = null.BACKEND.build([program], null.find())
    loaded = null.BACKEND.load(plan_of(executable, program), null.find())
    assert loaded.run([0] * 4, np.array([3]), ()) == 0
    y = ir.Buffer("y", float32, 1, "in")
    bad = ir.Map((), (ir.Store(y, 0, s.const(0, float32)),))
    with pytest.raises(InvalidProgram):
        null.build([grid_program((y,), [ir.Grid((), (bad,))])], null.find())
