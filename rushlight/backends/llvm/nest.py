"""Statements to loop nests: Map, and what others share. The innermost loop runs along vectors.

A vector loop has a body of `unroll` whole vectors and a remainder: masked vectors where the CPU has
masks for all widths (AVX-512), single elements elsewhere. Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import llvmlite.ir as ir

from rushlight.backends.llvm.access import (
    Accesses,
    Range,
    choose_range,
    find_accesses,
    ranges_of,
)
from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.ops import splat
from rushlight.backends.llvm.puts import put_all, value_and_mask
from rushlight.backends.llvm.streaming import streamed_buffers, with_streams
from rushlight.backends.llvm.turn import emit_turned, find_turn
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import Map
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr

# The body gets all points of one turn at once: (env, lanes) of each unrolled vector.
Body = Callable[[Sequence[tuple[Env, Lanes]]], None]


def emit_map(
    ctx: KernelContext, statement: Map, env: Env, ranges: Sequence[Range] | None = None
) -> None:
    """All points of a Map; `ranges` replaces its axes when the grid lent it some."""
    ranges = ranges_of(statement.axes) if ranges is None else list(ranges)
    accesses = map_accesses(statement)
    chosen = choose_range(ranges, accesses, ctx.target)
    count = lane_count(ctx, accesses, chosen)

    turn = find_turn(ranges, chosen, accesses, ctx.target)
    unroll = unroll_of(accesses, ctx)

    def body(points: Sequence[tuple[Env, Lanes]]) -> None:
        emit_points(ctx, statement, points, {})

    def plain(parts: Sequence[Range], at: Env) -> None:
        inner = parts[-1] if chosen is not None else None
        emit_ranges(ctx, parts, inner, count, unroll, at, body)

    def turned(points: Sequence[tuple[Env, Lanes]]) -> None:
        assert turn is not None
        emit_turned(
            ctx,
            turn,
            points[0][0],
            lambda at, lanes, leaves: emit_points(ctx, statement, [(at, lanes)], leaves),
            plain,
        )

    def rows(part: Range | None) -> None:
        parts = [part if r is chosen and part is not None else r for r in ranges]
        with_loads_from_here(ctx, lambda: emit_ranges(ctx, parts, part, count, unroll, env, body))

    if turn is None:
        streams = streamed_buffers(statement.stores, chosen, count)
        with_streams(ctx, streams, chosen, env, rows)
    else:
        others = [r for r in ranges if r is not turn.rows and r is not turn.columns]
        with_loads_from_here(ctx, lambda: emit_ranges(ctx, others, None, 1, 1, env, turned))


def emit_points(
    ctx: KernelContext,
    statement: Map,
    points: Sequence[tuple[Env, Lanes]],
    leaves: dict[E, ir.Value],
) -> None:
    """All values at these points, then all stores."""
    pending = []
    for env, lanes in points:
        emitter = ValueEmitter(ctx, ctx.builder, env, lanes, {}, leaves)
        pending.append((emitter, [value_and_mask(emitter, s) for s in statement.stores]))
    for emitter, values in pending:
        put_all(emitter, statement.stores, values)


def map_accesses(statement: Map) -> Accesses:
    roots = [e for s in statement.stores for e in (s.value, s.mask)]
    return find_accesses(roots, [s.at for s in statement.stores])


def lane_count(ctx: KernelContext, accesses: Accesses, chosen: Range | None) -> int:
    if chosen is None:
        return 1
    return ctx.vector_bytes // accesses.lane_bytes(chosen.axis.name, ctx.target)


def unroll_of(accesses: Accesses, ctx: KernelContext) -> int:
    """Enough independent work for simple bodies; no spills for the long ones."""
    cost = accesses.cost()
    wide = 4 if ctx.target.registers == 32 else 2
    return wide if cost <= 12 else 2 if cost <= 40 else 1


def with_loads_from_here(ctx: KernelContext, emit: Callable[[], None]) -> None:
    """Let loads of one statement move out of its own loops (never further: tiles change)."""
    before, ctx.load_depth = ctx.load_depth, ctx.depth
    emit()
    ctx.load_depth = before


def emit_ranges(
    ctx: KernelContext,
    ranges: Sequence[Range],
    chosen: Range | None,
    count: int,
    unroll: int,
    env: Env,
    body: Body,
) -> None:
    """The loops over `ranges`, the chosen one innermost and `count` lanes wide."""
    rest = [r for r in ranges if r is not chosen]
    if rest:
        first, others = rest[0], rest[1:]
        keep = [*others] if chosen is None else [*others, chosen]
        start, stop = bounds(ctx, first, env)
        with ctx.for_range(ctx.builder, start, stop) as index:
            inner = {**env, first.axis.name: index}
            emit_ranges(ctx, keep, chosen, count, unroll, inner, body)
    elif chosen is not None:
        emit_vector_range(ctx, chosen, count, unroll, env, body)
    else:
        body([(env, Lanes())])


def bounds(ctx: KernelContext, part: Range, env: Env) -> tuple[ir.Value, ir.Value]:
    return (
        ctx.int_expr(ctx.builder, part.start, env),
        ctx.int_expr(ctx.builder, part.stop, env),
    )


def emit_vector_range(
    ctx: KernelContext, part: Range, count: int, unroll: int, env: Env, body: Body
) -> None:
    """for axis in range: whole turns of unroll * count elements, then the remainder."""
    start, stop = bounds(ctx, part, env)
    static = part.extent if isinstance(part.extent, int) else None
    if static is not None:
        unroll = max(1, min(unroll, static // count))
    turn = unroll * count
    middle = stop
    if static is None or static % turn:
        middle = _whole_turns(ctx, start, stop, turn, static)
    axis = part.axis
    lanes = Lanes(count, axis, None, part.start == 0)
    if static is None or static >= turn:
        with ctx.for_range(ctx.builder, start, middle, turn) as index:
            body([({**env, axis.name: step(ctx, index, u * count)}, lanes) for u in range(unroll)])
    if middle is not stop:
        emit_remainder(ctx, part, middle, stop, lanes, env, body)


def step(ctx: KernelContext, index: ir.Value, offset: int) -> ir.Value:
    return ctx.builder.add(index, i64(offset), flags=("nsw",)) if offset else index


def _whole_turns(
    ctx: KernelContext, start: ir.Value, stop: ir.Value, turn: int, static: int | None
) -> ir.Value:
    """Where the last whole turn ends. `turn` is a power of two."""
    b = ctx.builder
    if static is not None:
        return b.sub(stop, i64(static % turn), flags=("nsw",))
    extent = b.sub(stop, start, flags=("nsw",))
    # An empty range may have stop < start: then nothing runs, whatever this is.
    return b.add(start, b.and_(extent, i64(-turn)), flags=("nsw",))


def emit_remainder(
    ctx: KernelContext,
    part: Range,
    start: ir.Value,
    stop: ir.Value,
    lanes: Lanes,
    env: Env,
    body: Body,
) -> None:
    """The elements after the last whole turn."""
    name, count = part.axis.name, lanes.count
    if not ctx.target.avx512 or count == 1:
        with ctx.for_range(ctx.builder, start, stop) as index:
            body([({**env, name: index}, Lanes())])
        return
    with ctx.for_range(ctx.builder, start, stop, count) as index:
        left = ctx.builder.sub(stop, index, flags=("nsw",))
        mask = first_lanes(ctx, left, count)
        body([({**env, name: index}, replace(lanes, mask=mask))])


def first_lanes(ctx: KernelContext, left: ir.Value, count: int) -> ir.Value:
    """<count x i1>: lane < left, for left >= 0."""
    b = ctx.builder
    kind = ir.IntType(min(64, 8 * ctx.vector_bytes // count))
    capped = b.select(b.icmp_signed("<", left, i64(count)), left, i64(count))
    narrow = capped if kind.width == 64 else b.trunc(capped, kind)
    lanes = ir.Constant(ir.VectorType(kind, count), list(range(count)))
    return b.icmp_unsigned("<", lanes, splat(b, narrow, count))


def total(values: Sequence[int | Expr]) -> int | Expr:
    result: int | Expr = 1
    for value in values:
        result = result * value
    return result
