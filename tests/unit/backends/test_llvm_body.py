"""Bodies of several statements: scans, loops, tiles on the stack and in scratch."""

from __future__ import annotations

import numpy as np
import pytest
from llvm_run import run
from llvm_targets import caps_of, each_target
from numpy_eval import canonical
from test_llvm_map import same, samples

from rushlight.backends.llvm.build import build
from rushlight.base import dtypes as dt
from rushlight.base.dtypes import DType, float32, int32, int64
from rushlight.compiler.tile.ir import (
    Axis,
    Buffer,
    Grid,
    Local,
    Loop,
    Map,
    Program,
    Reduce,
    ReduceItem,
    Scan,
    Store,
)
from rushlight.ir import scalar as s
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import minimum


def _latest(data: np.ndarray, kind: str) -> np.ndarray:
    """Positions of the running extreme, the latest among equals, NaN wins."""
    out = np.zeros(data.shape, np.int64)
    for row, found in zip(data, out, strict=True):
        best = 0
        for k, value in enumerate(row):
            better = value >= row[best] if kind == "argmax" else value <= row[best]
            if np.isnan(value) or (better and not np.isnan(row[best])):
                best = k
            found[k] = best
    return out


@each_target
@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("dtype", [float32, int32, dt.uint8], ids=lambda d: d.name)
def test_scans_fold_from_the_left(dtype: DType, layout: str, target: str) -> None:
    rows, cols = 45, 67
    m, n = Var("m", 1), Var("n", 1)
    data = np.stack([samples(dtype, cols, k) for k in range(rows)])
    if dtype is float32:
        data = np.where(np.isinf(data), 1.5, data * np.float32(1e-3)).astype(np.float32)
        data[1, 0] = -0.0
    kinds = ["sum", "prod", "max", "min", "argmax", "argmin"]
    programs = []
    for kind in kinds:
        i, k = Axis("i", m), Axis("k", n)
        at = i.var * n + k.var if layout == "rows" else k.var * m + i.var
        result = int64 if kind.startswith("arg") else dtype
        x, y = Buffer("x", dtype, m * n), Buffer("y", result, m * n, "out")
        scan = Scan((), k, kind, s.load(x, at), y, at)
        programs.append(Program("scan", (x, y), (), (m, n), (Grid((i,), (scan,)),)))
    flat = np.ascontiguousarray(data if layout == "rows" else data.T)
    for kind, executable in zip(kinds, build(programs, caps_of(target)), strict=True):
        got = np.zeros(flat.shape, executable.program.buffers[1].dtype.np)
        run(executable, [flat, got], {"m": rows, "n": cols}, split=2)
        got = got if layout == "rows" else got.T
        with np.errstate(all="ignore"):
            if kind in ("sum", "prod"):
                name = {"sum": "add", "prod": "multiply"}[kind]
                want = getattr(np, name).accumulate(data, axis=1, dtype=dtype.np)
            elif kind in ("max", "min"):
                want = getattr(np, kind + "imum").accumulate(data, axis=1)
            else:
                want = _latest(data, kind)
        same(np.ascontiguousarray(got), want)


def centered_rows(cols: int | Var, rows: int) -> Program:
    """y = x - mean(x) along rows, through a tile that holds the row."""
    x = Buffer("x", float32, rows * cols)
    y = Buffer("y", float32, rows * cols, "out")
    r = Axis("r", rows)
    a, b, c = Axis("a", cols), Axis("b", cols), Axis("c", cols)
    tile, mean = Local("tile", float32, (cols,)), Local("mean", float32, ())
    scale = s.const(1.0, float32) / s.cast(s.index(cols), float32)
    body = (
        Map((a,), (Store(tile, a.var, s.load(x, r.var * cols + a.var) * 2.0),)),
        Reduce(
            (), (b,), (ReduceItem("sum", s.local(tile, b.var), mean, 0, s.acc(float32) * scale),)
        ),
        Map((c,), (Store(y, r.var * cols + c.var, s.local(tile, c.var) - s.local(mean, 0)),)),
    )
    sizes = () if isinstance(cols, int) else (cols,)
    return Program("center", (x, y), (), sizes, (Grid((r,), body),))


@each_target
@pytest.mark.parametrize("cols", [5, 300, 9000, None])
def test_tiles_on_the_stack_and_in_scratch(cols: int | None, target: str) -> None:
    program = centered_rows(cols or Var("n", 1), 3)
    executable = build([program], caps_of(target))[0]
    local_bytes = executable.launches[0].local_bytes
    assert (local_bytes == 0) == (cols in (5, 300))
    for size in [cols] if cols else [1, 40, 5000]:
        data = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
        got = np.zeros_like(data)
        run(executable, [data, got], {"n": size}, split=3)
        doubled = data * np.float32(2)
        means = np.array([canonical(row) for row in doubled]) * (np.float32(1) / np.float32(size))
        same(got, doubled - means[:, None])


@each_target
def test_loops_carry_tiles(target: str) -> None:
    """acc = acc * 0.5 + x[t] over blocks of the time axis; the last block is short."""
    steps, width, block = 13, 37, 4
    x, y = Buffer("x", float32, steps * width), Buffer("y", float32, width, "out")
    tile = Local("acc", float32, (width,))
    zero_axis, out_axis, t, u, j = (
        Axis("z", width),
        Axis("o", width),
        Axis("t", -(-steps // block)),
        None,
        Axis("j", width),
    )
    u = Axis("u", minimum(block, steps - t.var * block))
    turn = Map(
        (j,),
        (
            Store(
                tile,
                j.var,
                s.local(tile, j.var) * 0.5 + s.load(x, (t.var * block + u.var) * width + j.var),
            ),
        ),
    )
    body = (
        Map((zero_axis,), (Store(tile, zero_axis.var, s.const(0.0, float32)),)),
        Loop(t, (Loop(u, (turn,)),)),
        Map((out_axis,), (Store(y, out_axis.var, s.local(tile, out_axis.var)),)),
    )
    executable = build([Program("ema", (x, y), (), (), (Grid((), body),))], caps_of(target))[0]
    data = np.random.default_rng(0).standard_normal((steps, width)).astype(np.float32)
    got = np.zeros(width, np.float32)
    run(executable, [data, got])
    want = np.zeros(width, np.float32)
    for row in data:
        want = want * np.float32(0.5) + row
    same(got, want)


@each_target
def test_invariant_loads_see_the_tile_of_this_turn(target: str) -> None:
    """A scalar tile changes in every turn of a loop and is read in a vector loop."""
    turns, width = 6, 50
    y = Buffer("y", float32, turns * width, "out")
    count = Local("count", float32, ())
    t, j = Axis("t", turns), Axis("j", width)
    body = (
        Map((), (Store(count, 0, s.const(0.0, float32)),)),
        Loop(
            t,
            (
                Map((), (Store(count, 0, s.local(count, 0) + 1.0),)),
                Map((j,), (Store(y, t.var * width + j.var, s.local(count, 0) * 1.0),)),
            ),
        ),
    )
    executable = build([Program("count", (y,), (), (), (Grid((), body),))], caps_of(target))[0]
    got = np.zeros((turns, width), np.float32)
    run(executable, [got])
    same(got, np.repeat(np.arange(1, turns + 1, dtype=np.float32)[:, None], width, 1))


@each_target
def test_triangular_extents(target: str) -> None:
    """The extent of an inner axis depends on the outer one."""
    n = 40
    y = Buffer("y", float32, n * n, "out")
    i = Axis("i", n)
    j = Axis("j", i.var + 1)
    value = s.cast(s.index(i.var * 100 + j.var), float32)
    for grid in (
        Grid((i,), (Map((j,), (Store(y, i.var * n + j.var, value),)),)),
        Grid((), (Map((i, j), (Store(y, i.var * n + j.var, value),)),)),
    ):
        executable = build([Program("tri", (y,), (), (), (grid,))], caps_of(target))[0]
        got = np.zeros((n, n), np.float32)
        run(executable, [got])
        want = np.tril(np.arange(n)[:, None] * 100.0 + np.arange(n)[None]).astype(np.float32)
        same(got, want)
