"""The loop over tiles of inner rows, for every schedule of an attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from rushlight.backends.llvm.attention_sides import Side
from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.pack import min_value
from rushlight.backends.llvm.values import Lanes, emit_value
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


def kind_of(builder: ir.IRBuilder, side: Side, code: ir.Value, owner: ir.Value) -> ir.Value:
    """What a run's code says about the group of an owner: 0 no pair, 1 some, 2 all."""
    assert side.runs is not None
    at = builder.udiv(builder.urem(owner, i64(side.runs.rows)), i64(side.runs.group))
    return builder.and_(builder.lshr(code, builder.mul(at, i64(2))), i64(3))


def max_value(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)
