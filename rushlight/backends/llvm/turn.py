"""Maps that read a buffer across its rows while they write along them (transposed copies).

A square block is loaded along the other axis, turned in registers and put into a small tile on the
stack; then its rows are computed as usual, with the turned loads read from the tile. What does not
fill a square is done by the ordinary loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import llvmlite.ir as ir

from rushlight.backends.llvm.access import OTHER, Accesses, Range, bounds_use, stride_along
from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.context import Env, KernelContext, i64, memory_type
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.transpose import emit_transpose
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, Var, VarAtom
from rushlight.ir.symint_walk import variables

# Rows that an instance turns: pieces of several lines of every column are read together.
TURN_ROWS = 64

Row = Callable[[Env, Lanes, dict[E, ir.Value]], None]
Plain = Callable[[Sequence[Range], Env], None]


@dataclass(frozen=True)
class Turn:
    """`loads` run along `rows` in memory, and the lanes along `columns`; blocks of count**2."""

    rows: Range
    columns: Range
    loads: tuple[E, ...]
    count: int


def find_turn(
    ranges: Sequence[Range], columns: Range | None, accesses: Accesses, target: Target
) -> Turn | None:
    """A turn for all loads that are neither uniform nor neighbours along the lanes, or None."""
    if columns is None:
        return None
    lane, names = columns.axis.name, accesses.names
    across = [
        node
        for node in names
        if node.op in ("load", "local") and stride_along(node.meta[1], lane, names) is OTHER
    ]
    if not across or any(n.args or n.dtype.kind == "bool" for n in across):
        return None
    if any(stride_along(at, lane, names) is OTHER for at in accesses.writes):
        return None
    for rows in ranges:
        name = rows.axis.name
        fits = all(
            stride_along(n.meta[1], name, names) == 1 and _is_linear(n.meta[1], lane)
            for n in across
        )
        tied = bounds_use(ranges, name) or bounds_use(ranges, lane)
        if rows is not columns and fits and not tied:
            widest = max(node.dtype.itemsize for node in names if lane in names[node])
            count = target.vector_bytes // max(widest, 4)
            return Turn(rows, columns, tuple(across), count)
    return None


def _is_linear(at: int | Expr, axis: str) -> bool:
    """Is the axis only a plain factor of the offset, outside of divisions and loaded values?"""
    if not isinstance(at, Expr):
        return True
    for monomial, _ in at.terms:
        for atom in monomial:
            if not isinstance(atom, VarAtom):
                if axis in {**variables(atom.a), **variables(atom.b)}:
                    return False
            elif atom.var.kind == "value":
                return False
    return True


def emit_turned(ctx: KernelContext, turn: Turn, env: Env, row: Row, plain: Plain) -> None:
    """All points of turn.rows x turn.columns: square blocks, then two borders by `plain`."""
    b, count = ctx.builder, turn.count
    edges: dict[str, ir.Value] = {}
    parts = []
    for part in (turn.rows, turn.columns):
        start, stop = (ctx.int_expr(b, e, env) for e in (part.start, part.stop))
        whole = b.add(start, b.and_(b.sub(stop, start), i64(-count)))
        named = [Var(f"{part.axis.name}.{n}", 0, None, "axis") for n in ("lo", "mid", "hi")]
        edges |= {v.name: value for v, value in zip(named, (start, whole, stop), strict=True)}
        parts.append((start, whole, named))
    (row_start, row_whole, row_names), (start, whole, names) = parts
    tiles = {node: ctx.stack_array(memory_type(node.dtype), count * count) for node in turn.loads}
    with ctx.for_range(b, start, whole, count) as column:
        with ctx.for_range(b, row_start, row_whole, count) as first:
            corner = {**env, turn.rows.axis.name: first, turn.columns.axis.name: column}
            _turn_block(ctx, turn, corner, tiles)
            with ctx.for_range(b, i64(0), i64(count)) as number:
                _block_row(ctx, turn, corner, tiles, number, row)
    rows, columns = turn.rows.axis, turn.columns.axis
    inner = {**env, **edges}
    plain([Range(rows, row_names[0], row_names[1]), Range(columns, names[1], names[2])], inner)
    plain([Range(rows, row_names[1], row_names[2]), Range(columns, names[0], names[2])], inner)


def _turn_block(ctx: KernelContext, turn: Turn, corner: Env, tiles: dict[E, ir.Value]) -> None:
    b, count, name = ctx.builder, turn.count, turn.columns.axis.name
    for node, tile in tiles.items():
        loaded = []
        for number in range(count):
            env = {**corner, name: b.add(corner[name], i64(number))}
            emitter = ValueEmitter(ctx, b, env, Lanes(count, turn.rows.axis), {})
            loaded.append(emitter.full(node))
        kind = loaded[0].type
        for number, turned in enumerate(emit_transpose(b, loaded)):
            at = b.gep(tile, [i64(number)], source_etype=kind)
            b.store(turned, at, align=count * node.dtype.itemsize)


def _block_row(
    ctx: KernelContext,
    turn: Turn,
    corner: Env,
    tiles: dict[E, ir.Value],
    number: ir.Value,
    row: Row,
) -> None:
    b, name = ctx.builder, turn.rows.axis.name
    leaves = {}
    for node, tile in tiles.items():
        kind = ir.VectorType(memory_type(node.dtype), turn.count)
        at = b.gep(tile, [number], source_etype=kind)
        leaves[node] = b.load(at, typ=kind, align=turn.count * node.dtype.itemsize)
    env = {**corner, name: b.add(corner[name], number)}
    row(env, Lanes(turn.count, turn.columns.axis), leaves)
