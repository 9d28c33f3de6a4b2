"""Reduce statements: canonical order, the same bits whichever axis the lanes run along.

    across   lanes along the innermost `over` axis: the 32 partials are the lanes of 32/L registers
    columns  lanes along a kept axis (or one lane): partials are separate vectors

Choosing is access.py's business; the order of the additions is fold.py's.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.llvm.access import (
    Accesses,
    Range,
    choose_range,
    find_accesses,
    ranges_of,
)
from rushlight.backends.llvm.context import Env, KernelContext
from rushlight.backends.llvm.flatten import flatten_over
from rushlight.backends.llvm.fold import Fold
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.monoid import Parts
from rushlight.backends.llvm.nest import emit_ranges, with_loads_from_here
from rushlight.backends.llvm.puts import put
from rushlight.backends.llvm.reduce_across import AcrossReduction
from rushlight.backends.llvm.reduce_columns import ColumnReduction
from rushlight.backends.llvm.reduce_panels import PanelReduction
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.base.dtypes import int64
from rushlight.compiler.tile.ir import PARTIALS, Reduce, Store
from rushlight.ir import scalar
from rushlight.ir.symint import Expr, upper
from rushlight.ir.symint_math import product

ARG_KINDS = ("argmax", "argmin")


def reduce_accesses(statement: Reduce) -> Accesses:
    """Only the reads count: the writes are rare."""
    values = find_accesses([item.value for item in statement.items], [])
    return WideAccesses(values) if _has_positions(statement) else values


def _has_positions(statement: Reduce) -> bool:
    return any(item.kind in ARG_KINDS for item in statement.items)


class WideAccesses(Accesses):
    """Positions are int64 lanes: every lane counts as 8 bytes."""

    def __init__(self, plain: Accesses) -> None:
        super().__init__(plain.roots, plain.names, plain.reads, plain.writes)

    def lane_bytes(self, axis: str, target: object) -> int:
        return 8


def choose_lanes(
    ctx: KernelContext, statement: Reduce, kept: Sequence[Range], accesses: Accesses
) -> Range | None:
    """The range for the lanes: a kept one, the innermost over axis, or None (one lane)."""
    inner = ranges_of(statement.over[-1:]) if statement.order == "canonical" else []
    return choose_range([*inner, *kept], accesses, ctx.target)


def emit_reduce(
    ctx: KernelContext, statement: Reduce, env: Env, ranges: Sequence[Range] | None = None
) -> None:
    """All points of a Reduce; `ranges` replaces its kept axes when the grid lent it some."""
    kept = ranges_of(statement.axes) if ranges is None else list(ranges)
    statement = flatten_over(statement)
    accesses = reduce_accesses(statement)
    chosen = choose_lanes(ctx, statement, kept, accesses)
    count = 1
    if chosen is not None:
        widest = accesses.lane_bytes(chosen.axis.name, ctx.target)
        count = min(PARTIALS, ctx.vector_bytes // widest)
    fold = Fold(ctx, statement)
    total = product(axis.extent for axis in statement.over)

    def body(points: Sequence[tuple[Env, Lanes]]) -> None:
        if across:
            reduction = AcrossReduction(ctx, statement, fold, total, count)
            states = [reduction.emit(points[0][0])]
        else:
            states = ColumnReduction(ctx, statement, fold, total, points).emit()
        for (point_env, lanes), state in zip(points, states, strict=True):
            store_results(ctx, statement, fold, point_env, lanes, state)

    across = chosen is not None and chosen not in kept
    if chosen is not None and not across and suits_panels(ctx, statement, fold, total, chosen):
        emit_panels(ctx, statement, fold, total, kept, chosen, count, env)
        return
    lane_range = None if across else chosen
    unroll = column_unroll(ctx, fold) if lane_range is not None else 1
    lanes = 1 if across else count
    with_loads_from_here(ctx, lambda: emit_ranges(ctx, kept, lane_range, lanes, unroll, env, body))


def suits_panels(
    ctx: KernelContext, statement: Reduce, fold: Fold, total: int | Expr, chosen: Range
) -> bool:
    """Many rows of a wide kept axis; a few columns stay in registers instead."""
    few_rows = isinstance(total, int) and total < 4 * PARTIALS
    most = upper(chosen.axis.extent)
    few_columns = isinstance(most, int) and most <= 64
    return statement.order == "canonical" and not few_rows and not few_columns


def emit_panels(
    ctx: KernelContext,
    statement: Reduce,
    fold: Fold,
    total: int | Expr,
    kept: Sequence[Range],
    chosen: Range,
    count: int,
    env: Env,
) -> None:
    def store(point_env: Env, lanes: Lanes, state: Parts) -> None:
        store_results(ctx, statement, fold, point_env, lanes, state)

    def body(points: Sequence[tuple[Env, Lanes]]) -> None:
        reduction.emit(points[0][0])

    reduction = PanelReduction(ctx, statement, fold, total, chosen, count, store)
    others = [r for r in kept if r is not chosen]
    with_loads_from_here(ctx, lambda: emit_ranges(ctx, others, None, 1, 1, env, body))


def column_unroll(ctx: KernelContext, fold: Fold) -> int:
    """How many neighbouring vectors are reduced together: whole cache lines, registers allowing."""
    wide = 4 if ctx.target.registers == 32 else 2
    return max(1, wide // fold.size)


def store_results(
    ctx: KernelContext, statement: Reduce, fold: Fold, env: Env, lanes: Lanes, state: Parts
) -> None:
    for item, result in zip(statement.items, fold.results(state), strict=True):
        dtype = int64 if item.kind in ARG_KINDS else item.value.dtype
        leaf = scalar.acc(dtype)
        emitter = ValueEmitter(ctx, ctx.builder, env, lanes, {}, {leaf: result})
        finish = leaf if item.finish is None else item.finish
        put(emitter, Store(item.dest, item.at, finish), emitter.full(finish))
