"""Grids of statements to kernel functions: instances, locals, and the order of statements.

A grid with a single statement lends its axes to it: if the lanes run best along a grid axis, that
axis is cut into blocks, and one instance is a block of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.ir as ir

from rushlight.backends.llvm.access import Range, choose_range, ranges_of
from rushlight.backends.llvm.context import Env, KernelContext, i64, memory_type
from rushlight.backends.llvm.flatten import flatten_over
from rushlight.backends.llvm.nest import emit_map, map_accesses
from rushlight.backends.llvm.reduce import choose_lanes, emit_reduce, reduce_accesses
from rushlight.backends.llvm.reduce_panels import panel_width
from rushlight.backends.llvm.rows_ahead import rows_ahead
from rushlight.backends.llvm.scan import emit_scan, scan_blocks
from rushlight.backends.llvm.sort import emit_sort, sort_local_bytes
from rushlight.backends.llvm.turn import TURN_ROWS, find_turn
from rushlight.backends.llvm.types import Launch
from rushlight.compiler.tile.ir import (
    Axis,
    Buffer,
    Grid,
    Local,
    Loop,
    Map,
    Reduce,
    Scan,
    Sort,
    Statement,
)
from rushlight.ir.scalar import E, topological
from rushlight.ir.symint import Expr, upper
from rushlight.ir.symint_math import ceildiv, minimum, product
from rushlight.ir.symint_walk import evaluate, variables

Index = int | Expr
ALIGN = 64
# Elements of a lent grid axis in one instance: enough to hide the cost of starting it.
MAP_BLOCK = 4096
# Scalar operations that make a unit of work for a thread (some 10 microseconds).
GRAIN_COST = 1 << 15


@dataclass(frozen=True)
class GridPlan:
    """Which axes make instances, and what the single statement gets instead of its own axes."""

    instances: tuple[Axis, ...]
    ranges: tuple[Range, ...] | None = None
    # How many points of the grid an instance is.
    points: int = 1


def lower_grid(ctx: KernelContext, grid: Grid) -> Launch:
    """Emit one grid as ctx.function."""
    plan = plan_grid(ctx, grid)
    placement = place_locals(ctx, grid)
    with ctx.instances([axis.extent for axis in plan.instances]) as numbers:
        env = {axis.name: n for axis, n in zip(plan.instances, numbers, strict=True)}
        for statement, ahead in zip(grid.body, rows_ahead(grid), strict=True):
            ctx.ahead = ahead
            emit_statement(ctx, statement, env, plan.ranges, placement)
    count = product(axis.extent for axis in plan.instances)
    cost = body_cost(grid.body) * plan.points
    return Launch(
        symbol=ctx.function.name,
        address=0,
        instances=count,
        local_bytes=placement.bytes,
        grain=grain_of(cost),
        cost=cost,
    )


def grain_of(cost: Index) -> int:
    """Instances per unit of work; where sizes are unknown they count as 64."""
    if isinstance(cost, Expr):
        cost = evaluate(cost, {name: 64 for name in variables(cost)})
    return max(1, GRAIN_COST // max(1, cost))


def body_cost(body: Sequence[Statement]) -> Index:
    """About how many scalar operations an instance is."""
    return sum((statement_cost(s) for s in body), start=0)


def statement_cost(statement: Statement) -> Index:
    if isinstance(statement, Loop):
        return _points((statement.axis,)) * body_cost(statement.body)
    if isinstance(statement, Sort):
        return _points((statement.over,)) * 64
    axes: tuple[Axis, ...] = statement.axes
    if isinstance(statement, Map):
        values = [s.value for s in statement.stores]
    elif isinstance(statement, Reduce):
        axes, values = axes + statement.over, [i.value for i in statement.items]
    else:
        axes, values = (*axes, statement.over), [statement.value]
    return _points(axes) * max(1, len(topological(tuple(values))))


def _points(axes: Sequence[Axis]) -> Index:
    """The number of points, with bounds for extents that depend on other axes."""
    sizes = []
    for axis in axes:
        high = upper(axis.extent)
        known = axis.extent if high is None else high
        free = variables(known).values()
        sizes.append(64 if any(v.kind != "size" for v in free) else known)
    return product(sizes)


# ---- lending grid axes -------------------------------------------------------------------------


def plan_grid(ctx: KernelContext, grid: Grid) -> GridPlan:
    """Instances as they stand, or with the lanes' axis cut into blocks."""
    plain = GridPlan(grid.axes)
    if len(grid.body) != 1 or not isinstance(grid.body[0], Map | Reduce | Scan):
        return plain
    (statement,) = grid.body
    lent = [Range(axis, 0, axis.extent) for axis in grid.axes]
    blocks = _blocks(ctx, statement, lent)
    if not blocks:
        return plain
    instances, ranges, points = [], [], 1
    for axis in grid.axes:
        size = blocks.get(axis)
        if size is None:
            instances.append(axis)
            continue
        block = Axis(f"{axis.name}.block", ceildiv(axis.extent, size))
        start = block.var * size
        instances.append(block)
        ranges.append(Range(axis, start, minimum(start + size, axis.extent)))
        points *= min(size, axis.extent) if isinstance(axis.extent, int) else size
    return GridPlan(tuple(instances), (*ranges, *ranges_of(statement.axes)), points)


def _blocks(
    ctx: KernelContext, statement: Map | Reduce | Scan, lent: Sequence[Range]
) -> dict[Axis, int]:
    """The lent axes that an instance takes a block of, with its size."""
    if isinstance(statement, Scan):
        return scan_blocks(ctx, statement, lent)
    chosen = _lanes_of(ctx, statement, lent)
    if chosen is None:
        return {}
    axis, is_lent = chosen.axis, chosen in lent and chosen.axis.extent != 1
    if isinstance(statement, Reduce):
        return {axis: _column_block(ctx, axis)} if is_lent else {}
    ranges = [*lent, *ranges_of(statement.axes)]
    turn = find_turn(ranges, chosen, map_accesses(statement), ctx.target)
    if turn is None:
        return {axis: MAP_BLOCK} if is_lent else {}
    found = {axis: MAP_BLOCK // 4} if is_lent else {}
    return found | ({turn.rows.axis: TURN_ROWS} if turn.rows in lent else {})


def _column_block(ctx: KernelContext, axis: Axis) -> int:
    """Columns of an instance of a Reduce: long pieces of rows, and work for every thread."""
    least, most = ctx.vector_bytes, panel_width(4)
    if not isinstance(axis.extent, int):
        return most // 2
    share = -(-axis.extent // ctx.caps.threads)
    return max(least, min(most, -(-share // least) * least))


def _lanes_of(ctx: KernelContext, statement: Map | Reduce, lent: Sequence[Range]) -> Range | None:
    ranges = [*lent, *ranges_of(statement.axes)]
    if isinstance(statement, Reduce):
        flat = flatten_over(statement)
        return choose_lanes(ctx, flat, ranges, reduce_accesses(flat))
    return choose_range(ranges, map_accesses(statement), ctx.target)


# ---- statements --------------------------------------------------------------------------------


def emit_statement(
    ctx: KernelContext,
    statement: Statement,
    env: Env,
    ranges: Sequence[Range] | None,
    placement: Placement,
) -> None:
    if isinstance(statement, Map):
        emit_map(ctx, statement, env, ranges)
    elif isinstance(statement, Reduce):
        emit_reduce(ctx, statement, env, ranges)
    elif isinstance(statement, Scan):
        emit_scan(ctx, statement, env, ranges)
    elif isinstance(statement, Sort):
        emit_sort(ctx, ctx.builder, statement, env, placement.sort_scratch(ctx, statement))
    else:
        stop = ctx.int_expr(ctx.builder, statement.axis.extent, env)
        with ctx.for_range(ctx.builder, i64(0), stop) as index:
            inner = {**env, statement.axis.name: index}
            for part in statement.body:
                emit_statement(ctx, part, inner, None, placement)


# ---- locals ------------------------------------------------------------------------------------


@dataclass
class Placement:
    """Where the tiles of a grid lie. `bytes`: scratch of one thread beyond the stack."""

    bytes: Index
    sorts: dict[Sort, Index]

    def sort_scratch(self, ctx: KernelContext, statement: Sort) -> ir.Value:
        return scratch_at(ctx, self.sorts[statement])


def place_locals(ctx: KernelContext, grid: Grid) -> Placement:
    """Small tiles on the stack, others (and the records of sorts) in the scratch of the thread."""
    offset: Index = 0
    left = ctx.caps.stack_tile_bytes
    for tile in tiles_of(grid.body):
        size = tile_bytes(tile)
        if isinstance(size, int) and size <= left:
            left -= size
            elements = max(1, -(-size // tile.dtype.itemsize))
            ctx.pointers[tile] = ctx.stack_array(memory_type(tile.dtype), elements)
        else:
            ctx.pointers[tile] = scratch_at(ctx, offset)
            offset = offset + round_up(size)
    sorts: dict[Sort, Index] = {}
    for statement in walk(grid.body):
        if isinstance(statement, Sort):
            sorts[statement] = offset
            offset = offset + round_up(sort_local_bytes(statement))
    return Placement(offset, sorts)


def scratch_at(ctx: KernelContext, offset: Index) -> ir.Value:
    place = ctx.int_expr(ctx.entry, offset, {})
    return ctx.entry.gep(ctx.args.local, [place], source_etype=ir.IntType(8))


def round_up(size: Index) -> Index:
    return ceildiv(size, ALIGN) * ALIGN


def tile_bytes(tile: Local) -> Index:
    """The size in bytes, for the largest extents where they depend on axes."""
    size: Index = 1
    for extent in tile.shape:
        high = upper(extent)
        if high is None or any(v.kind != "size" for v in variables(high).values()):
            raise ValueError(f"tile {tile.name}: no bound for the extent {extent!r} over sizes")
        size = size * high
    return size * tile.dtype.itemsize


def walk(body: Sequence[Statement]) -> list[Statement]:
    """All statements, those inside loops after their loop."""
    found: list[Statement] = []
    for statement in body:
        found.append(statement)
        if isinstance(statement, Loop):
            found += walk(statement.body)
    return found


def tiles_of(body: Sequence[Statement]) -> list[Local]:
    """Every tile that is stored to or read, once, in order."""
    found: dict[Local, None] = {}
    for statement in walk(body):
        roots, dests = parts_of(statement)
        found |= {d: None for d in dests if isinstance(d, Local)}
        for node in topological(tuple(roots)):
            if node.op in ("local", "load") and isinstance(node.meta[0], Local):
                found[node.meta[0]] = None
    return list(found)


def parts_of(statement: Statement) -> tuple[list[E], list[Buffer | Local]]:
    """The expressions of a statement and what it stores to."""
    if isinstance(statement, Map):
        roots = [e for s in statement.stores for e in (s.value, s.mask) if e is not None]
        return roots, [s.dest for s in statement.stores]
    if isinstance(statement, Reduce):
        roots = [e for i in statement.items for e in (i.value, i.finish) if e is not None]
        return roots, [i.dest for i in statement.items]
    if isinstance(statement, Scan):
        return [statement.value], [statement.dest]
    if isinstance(statement, Sort):
        return [statement.key], [statement.dest]
    return [], []
