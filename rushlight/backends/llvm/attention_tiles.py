"""The loop over tiles of inner rows, for every schedule of an attention."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from rushlight.backends.llvm.attention_sides import Side
from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.pack import min_value
from rushlight.backends.llvm.values import emit_value
from rushlight.compiler.tile.ir import KEY_BLOCK
from rushlight.ir.scalar import E


@contextmanager
def tiles_of(
    ctx: KernelContext, builder: ir.IRBuilder, side: Side, is_causal: bool, env: Env,
    first: ir.Value, owners: ir.Value,
) -> Iterator[tuple[ir.Value, ir.Value | None]]:  # fmt: skip
    """Loops over (first inner row of a tile, the code of its run if there are runs), for `owners`
    owners from `first` on."""
    extent = ctx.int_expr(builder, side.inner.extent, {})
    start, stop = i64(0), extent
    if is_causal and side.name == "l":
        stop = min_value(builder, extent, builder.add(first, owners))
    elif is_causal:
        start = builder.and_(first, i64(-KEY_BLOCK))
    runs = side.runs
    if runs is None:
        with ctx.for_range(builder, start, stop, KEY_BLOCK) as tile:
            yield tile, None
        return

    def scalar(e: E, here: Env) -> ir.Value:
        return emit_value(ctx, builder, e, {**env, **here}, Lanes(), {})

    row = {runs.row.name: builder.udiv(first, i64(runs.rows))}
    begin, end = scalar(runs.begin, row), scalar(runs.end, row)
    with ctx.for_range(builder, begin, end) as run:
        here = {runs.run.name: run}
        low, high, code = (scalar(e, here) for e in (runs.first, runs.stop, runs.code))
        low = max_value(builder, builder.mul(low, i64(runs.tile)), start)
        high = min_value(builder, builder.mul(high, i64(runs.tile)), stop)
        with ctx.for_range(builder, low, high, KEY_BLOCK) as tile:
            yield tile, code


def kinds_of(builder: ir.IRBuilder, side: Side, code: ir.Value, owner: ir.Value) -> list[ir.Value]:
    """What a run's code says about the group of an owner with each part of a tile: 0 no pair, 1
    some, 2 all."""
    runs = side.runs
    assert runs is not None
    parts = runs.tile // runs.part
    group = builder.udiv(builder.urem(owner, i64(runs.rows)), i64(runs.group))
    first = builder.lshr(code, builder.mul(group, i64(2 * parts)))
    return [builder.and_(builder.lshr(first, i64(2 * n)), i64(3)) for n in range(parts)]


def any_is(builder: ir.IRBuilder, kinds: Sequence[ir.Value], relation: str, kind: int) -> ir.Value:
    """Does one of them compare so with a kind?"""
    found = [builder.icmp_signed(relation, k, i64(kind)) for k in kinds]
    return functools.reduce(builder.or_, found)


def present(
    builder: ir.IRBuilder, side: Side, kinds: Sequence[ir.Value], low: ir.Value, high: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Of the rows low ... high - 1 of a tile those from its first to its last present part."""
    assert side.runs is not None
    begin, end = i64(KEY_BLOCK), i64(0)
    starts = range(0, KEY_BLOCK, side.runs.part)
    for start, kind in reversed(list(zip(starts, kinds, strict=True))):
        begin = builder.select(builder.icmp_signed("!=", kind, i64(0)), i64(start), begin)
    for start, kind in zip(starts, kinds, strict=True):
        stop = i64(start + side.runs.part)
        end = builder.select(builder.icmp_signed("!=", kind, i64(0)), stop, end)
    return max_value(builder, low, begin), min_value(builder, high, end)


def max_value(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)
