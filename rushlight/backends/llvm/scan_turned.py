"""Scans of rows that lie one after the other: rows become lanes.

As many rows as a vector has lanes are read in vectors along them; a square block of these is turned
in registers, so that one operation does the next step of every row, and the results are turned
back. So loads and stores are whole vectors, which may go past the caches (streaming.py). The steps
are those of a row of its own, in its order: no bit depends on which rows are together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import llvmlite.ir as ir

from rushlight.backends.llvm.access import (
    Accesses,
    Index,
    Range,
    bounds_use,
    free_names,
    stride_along,
)
from rushlight.backends.llvm.context import I32, I64, Env, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.nest import bounds, emit_ranges, first_lanes
from rushlight.backends.llvm.puts import put
from rushlight.backends.llvm.scan_fold import Folding, Point
from rushlight.backends.llvm.transpose import emit_transpose
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import Buffer, Local, Scan
from rushlight.compiler.tile.merge_axes import coefficient
from rushlight.ir.symint import Var
from rushlight.ir.symint_walk import variables

# Single elements of so many rows go along together. The lines that they read and write are often
# the same place of a cache of eight ways.
ROWS_AT_ONCE = 4
# Fewer rows than these are not worth turning a block of them.
LEAST_TURNED = 4
# Where a step is one operation, single elements are as fast in rows of fewer vectors than these,
# and faster in rows that do not begin at multiples of so many bytes.
SIMPLE = ("sum", "running_sum", "prod")
LEAST_VECTORS, ROW_BYTES = 8, 16
# A block of rows asks for the next one where rows are not longer than these bytes: the machine's
# own prefetching loses track. So do stores, which read the lines that they fill first. In longer
# rows loads ask for what comes so many bytes later.
NEXT_BYTES, NEXT_STORE_BYTES, LATER_BYTES = 8192, 1024, 1024


def can_turn(
    statement: Scan, ranges: Sequence[Range], rows: Range, accesses: Accesses, count: int
) -> bool:
    """Do the elements of a row lie side by side, and are there enough of them and of rows?"""
    over = statement.over
    few = is_below(rows.axis.extent, LEAST_TURNED)
    if few or is_below(over.extent, _least_length(statement, count)):
        return False
    offset = _row_offset(statement, rows)
    if isinstance(offset, int) and offset:
        return False
    if statement.value.dtype.kind == "bool" or bounds_use(ranges, rows.axis.name):
        return False
    if any(v.kind != "size" for v in variables(over.extent).values()):
        return False
    if any(stride_along(at, over.name, accesses.names) != 1 for at in accesses.writes):
        return False
    return accesses.score(over.name) > 0


def turned_count(ctx: KernelContext, statement: Scan, accesses: Accesses) -> int:
    widest = max(4, accesses.lane_bytes(statement.over.name, ctx.target))
    return ctx.vector_bytes // widest


def _least_length(statement: Scan, count: int) -> int:
    """Of a row that is worth turning."""
    if statement.kind in ("argmax", "argmin"):
        return 0
    return LEAST_VECTORS * count if statement.kind in SIMPLE else count


def _row_offset(statement: Scan, rows: Range) -> Index:
    """By how many bytes rows lie beside multiples of ROW_BYTES, where that matters."""
    step = coefficient(statement.at, rows.axis.name)
    if step is None or statement.kind not in SIMPLE:
        return 0
    return step * statement.dest.dtype.itemsize % ROW_BYTES


def is_below(extent: Index, least: int) -> bool:
    return isinstance(extent, int) and extent < least


def emit_turned_rows(
    scan: Folding, rows: Range, count: int, ranges: Sequence[Range], env: Env
) -> None:
    """Blocks of rows; fewer than LEAST_TURNED that are left go as chains."""
    ctx, b, name = scan.ctx, scan.ctx.builder, rows.axis.name
    others = [part for part in ranges if part is not rows]
    few = min(count, LEAST_TURNED)

    def all_rows(points: Sequence[Point]) -> None:
        at = points[0][0]
        start, stop = bounds(ctx, rows, at)
        # A block that is not full turns its last row several times.
        full = b.add(b.sub(stop, start), i64(count - few))
        middle = b.add(start, b.and_(full, i64(-count)))
        if not isinstance(scan.over.extent, int):
            extent = ctx.int_expr(b, scan.over.extent, at)
            least = i64(_least_length(scan.statement, count))
            offset = ctx.int_expr(b, _row_offset(scan.statement, rows), at)
            suits = b.and_(b.icmp_signed(">=", extent, least), b.icmp_signed("==", offset, i64(0)))
            middle = b.select(suits, middle, start)
        last = b.sub(stop, i64(1))
        with ctx.for_range(b, start, middle, count) as first:
            envs = []
            for number in range(count):
                row = b.add(first, i64(number))
                envs.append({**at, name: b.select(b.icmp_signed("<", row, last), row, last)})
            with _asking_ahead(scan, rows, count):
                _Block(scan, envs, rows).run()
        static = isinstance(rows.axis.extent, int) and isinstance(scan.over.extent, int)
        if static and not 0 < rows.axis.extent % count < few:
            return
        edge = Var(f"{name}.turned", 0, None, "axis")
        left = replace(rows, start=edge)
        inner = {**at, edge.name: middle}
        emit_ranges(ctx, [left], left, 1, ROWS_AT_ONCE, inner, scan.chains)

    emit_ranges(ctx, others, None, 1, 1, env, all_rows)


@contextmanager
def _asking_ahead(scan: Folding, rows: Range, count: int) -> Iterator[None]:
    """The loads of a block ask for the same places of the next one (rows_ahead.py)."""
    before = scan.ctx.ahead
    found: dict[Buffer, Index] = {}
    for node in free_names([scan.statement.value]):
        if node.op == "load" and not node.args and isinstance(node.meta[0], Buffer):
            buffer, at = node.meta
            distance = _to_next(at, rows, count)
            if not isinstance(distance, int) or _lies_near(distance, buffer, count, NEXT_BYTES):
                found[buffer] = distance
            else:
                found[buffer] = LATER_BYTES // buffer.dtype.itemsize
    scan.ctx.ahead = found
    yield
    scan.ctx.ahead = before


def _to_next(at: Index, rows: Range, count: int) -> Index:
    """Elements from a block of rows to the next one; 0 where that is not known."""
    step = coefficient(at, rows.axis.name)
    return 0 if step is None else step * count


def _lies_near(distance: int, buffer: Buffer | Local, count: int, most: int) -> bool:
    return 0 < abs(distance) * buffer.dtype.itemsize <= most * count


class _Block:
    """As many rows as a vector has lanes: envs of them."""

    def __init__(self, scan: Folding, envs: Sequence[Env], rows: Range) -> None:
        self.scan, self.envs, self.count = scan, envs, len(envs)
        dest = scan.store.dest
        distance = _to_next(scan.store.at, rows, self.count)
        self.stores_ahead = 0
        if isinstance(distance, int) and dest not in scan.ctx.streamed:
            near = _lies_near(distance, dest, self.count, NEXT_STORE_BYTES)
            self.stores_ahead = distance if near else 0

    def run(self) -> None:
        self.scan.in_parts(self.envs[0], 1, self.count, self.part)

    def part(self, start: ir.Value, stop: ir.Value, before: Sequence[ir.Value]) -> list[ir.Value]:
        scan, ctx, count = self.scan, self.scan.ctx, self.count
        b = ctx.builder
        first = scan.identity(1, count)
        extent = b.sub(stop, start, flags=("nsw",))
        whole = b.add(start, b.and_(extent, i64(-count)), flags=("nsw",))
        with ctx.for_loop(b, start, whole, count, first) as loop:
            loop.set_next(self.square(loop.index, loop.carried, before, None))
        results = loop.results
        length = scan.over.extent
        if isinstance(length, int) and length % count == 0:
            return results
        # What does not fill a vector is the end of the row: nothing is carried on from there.
        if ctx.target.avx512:
            with ctx.for_range(b, i64(0), b.zext(b.icmp_signed("<", whole, stop), I64)):
                mask = first_lanes(ctx, b.sub(stop, whole, flags=("nsw",)), count)
                self.square(whole, results, before, mask)
            return results
        lanes = [ir.Constant(I32, n) for n in range(count)]
        points = [(env, Lanes()) for env in self.envs]
        own = [b.extract_element(v, n) for n in lanes for v in results]
        ahead = [b.extract_element(v, n) for n in lanes for v in before]
        scan.chain(points, whole, stop, own, ahead)
        return results

    def square(
        self,
        at: ir.Value,
        state: Sequence[ir.Value],
        before: Sequence[ir.Value],
        mask: ir.Value | None,
    ) -> list[ir.Value]:
        """`count` elements of each row."""
        scan, ctx, count = self.scan, self.scan.ctx, self.count
        b, over = ctx.builder, scan.over
        lanes = Lanes(count, over, mask, aligned=True)
        emitters = [ValueEmitter(ctx, b, {**env, over.name: at}, lanes, {}) for env in self.envs]
        columns = emit_transpose(b, [e.full(scan.statement.value) for e in emitters])
        results, state = [], list(state)
        for number, column in enumerate(columns):
            position = None
            if scan.size == 2:
                position = emitters[0].spread(b.add(at, i64(number), flags=("nsw",)))
            state = scan.join(state, column, position)
            results.append(scan.result(state, before[0] if before else None))
        for emitter, row in zip(emitters, emit_transpose(b, results), strict=True):
            if self.stores_ahead:
                emitter.ask_for(scan.store, self.stores_ahead)
            put(emitter, scan.store, row)
        return state
