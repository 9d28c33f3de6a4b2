"""Large results are stored past the caches, rows that follow are asked for: the bits stay."""

from __future__ import annotations

import numpy as np
import pytest
from llvm_run import aligned, run
from llvm_targets import caps_of, each_target

from rushlight.backends.llvm import body, streaming
from rushlight.backends.llvm.build import build, lower
from rushlight.base.dtypes import DType, bfloat16, bool_, float32, float64, int64
from rushlight.compiler.tile.ir import (
    Axis,
    Buffer,
    Grid,
    Local,
    Map,
    Program,
    Reduce,
    ReduceItem,
    Store,
)
from rushlight.ir import scalar as s
from rushlight.ir.symint import Var

MARK = "!nontemporal"


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch):
    monkeypatch.setattr(streaming, "STREAM_BYTES", 1)
    monkeypatch.setattr(body, "MAP_BLOCK", 128)


def doubled(dtype: DType, size: int | Var, role: str = "out") -> Program:
    """out[i] = a[i] + a[i], or whether it is above 0 for bools."""
    a = Buffer("a", float32 if dtype is bool_ else dtype, size)
    axis = Axis("i", size)
    value = s.load(a, axis.var)
    wide = s.cast(value, dtype.compute)
    value = s.gt(value, s.const(0.0, float32)) if dtype is bool_ else s.cast(wide + wide, dtype)
    out = Buffer("out", dtype, size, role)
    grid = Grid((axis,), (Map((), (Store(out, axis.var, value),)),))
    sizes = (size,) if isinstance(size, Var) else ()
    return Program("doubled", (a, out), (), sizes, (grid,))


def at(offset: int, size: int, dtype: DType) -> np.ndarray:
    """Memory that begins `offset` elements after a multiple of 64 bytes."""
    memory = aligned((size + offset) * dtype.itemsize)
    return memory[offset * dtype.itemsize :].view(dtype.np)


@each_target
@pytest.mark.parametrize("dtype", [float32, float64, bfloat16, int64, bool_], ids=str)
@pytest.mark.parametrize("offset", [0, 1, 8])
def test_any_size_at_any_address(target, dtype, offset):
    n = Var("n", 0)
    (executable,) = build([doubled(dtype, n)], caps_of(target))
    for size in (0, 1, 127, 128, 129, 256, 1000):
        source = np.arange(size) - size // 2
        kind = np.float32 if dtype is bool_ else dtype.np
        a, out = np.ascontiguousarray(source.astype(kind)), at(offset, size, dtype)
        guard = at(offset, size + 64, dtype)  # what lies behind stays as it was
        before = guard[size:].copy()
        assert run(executable, [a, guard], {"n": size}, split=3) == 0
        assert (guard[size:] == before).all()
        assert run(executable, [a, out], {"n": size}) == 0
        want = a > 0 if dtype is bool_ else (a + a).astype(dtype.np)
        assert (out == want).all() and (guard[:size] == want).all()


@each_target
def test_only_whole_results_that_are_not_read_stream(target):
    caps = caps_of(target)

    def streams(program: Program) -> bool:
        return MARK in str(lower([program], caps)[0])

    assert streams(doubled(float32, 1024)) and streams(doubled(float32, Var("n", 0)))
    assert not streams(doubled(float32, 1024, "inout"))
    axis = Axis("i", 64)
    out = Buffer("out", float32, 128, "out")
    for place in (axis.var * 2, axis.var + 1):  # with gaps; never at a multiple of a vector
        grid = Grid((axis,), (Map((), (Store(out, place, s.const(1.0, float32)),)),))
        assert not streams(Program("gaps", (out,), (), (), (grid,)))


def test_small_results_stay_in_the_caches(monkeypatch):
    monkeypatch.setattr(streaming, "STREAM_BYTES", 4096)
    caps = caps_of("host")
    assert MARK not in str(lower([doubled(float32, 1023)], caps)[0])
    assert MARK in str(lower([doubled(float32, 1024)], caps)[0])


def centered(rows: int | Var, width: int) -> Program:
    """out[r, c] = x[r, c] - sum of x[r]: each row is read twice."""
    r, c = Axis("r", rows), Axis("c", width)
    x = Buffer("x", float32, rows * width)
    out = Buffer("out", float32, rows * width, "out")
    total = Local("t", float32, (1,))
    value = s.load(x, r.var * width + c.var)
    body_ = (
        Reduce((), (c,), (ReduceItem("sum", value, total, 0),)),
        Map((c,), (Store(out, r.var * width + c.var, value - s.local(total, 0)),)),
    )
    sizes = (rows,) if isinstance(rows, Var) else ()
    return Program("centered", (x, out), (), sizes, (Grid((r,), body_),))


@each_target
@pytest.mark.parametrize("width", [16, 160, 500, 1024])
def test_the_second_reading_asks_for_the_next_row(target, width):
    caps = caps_of(target)
    program = centered(Var("n", 0), width)
    asks = "llvm.prefetch" in str(lower([program], caps)[0])
    assert asks == (width * 4 >= 512)
    (executable,) = build([program], caps)
    x = np.arange(5 * width, dtype=np.float32) % 7
    out = at(0, 5 * width, float32)
    assert run(executable, [x, out], {"n": 5}, split=2) == 0
    rows = x.reshape(5, width)
    assert (out.reshape(5, width) == rows - rows.sum(1, keepdims=True)).all()
