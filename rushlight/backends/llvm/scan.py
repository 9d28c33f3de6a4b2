"""Scan: inclusive folds along an axis, each row in its own order, many rows at once.

Three ways, by how the rows lie:

* side by side (a scan over columns): lanes run along a kept axis;
* one after the other: `count` rows are a block of vectors along the row, turned in registers; lanes
  are rows then, and what they give is turned back. So loads and stores are whole lines, and one
  addition does what `count` chains of single elements would wait for;
* a few rows, or rows whose elements are apart: single elements of ROWS_AT_ONCE rows, each of which
  is a chain that waits for itself.

A running sum (see [running sums] in compiler/tile/ir.py) carries what stands before the chunk along
with the fold in it, in each of these ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import llvmlite.ir as ir

from rushlight.backends.llvm.access import (
    Accesses,
    Index,
    Range,
    bounds_use,
    choose_range,
    find_accesses,
    free_names,
    ranges_of,
    stride_along,
)
from rushlight.backends.llvm.context import I32, I64, Env, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.monoid import Monoid, scan_monoid
from rushlight.backends.llvm.nest import (
    bounds,
    emit_ranges,
    first_lanes,
    lane_count,
    with_loads_from_here,
)
from rushlight.backends.llvm.ops import constant
from rushlight.backends.llvm.puts import put
from rushlight.backends.llvm.streaming import streamed_buffers, with_streams
from rushlight.backends.llvm.transpose import emit_transpose
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import SUM_CHUNK, Axis, Buffer, Local, Scan, Store
from rushlight.compiler.tile.merge_axes import coefficient
from rushlight.ir.symint import Var
from rushlight.ir.symint_walk import variables

# Rows that go along together as single elements. The lines that they read and write are often the
# same place of a cache of eight ways.
ROWS_AT_ONCE = 4
# Fewer rows than these are not worth turning a block of them.
LEAST_TURNED = 4
# Where a step is one operation, chains are as fast in rows of fewer vectors than these, and faster in
# rows that do not begin at multiples of so many bytes (their vectors are parts of two lines).
SIMPLE = ("sum", "running_sum", "prod")
LEAST_VECTORS, ROW_BYTES = 8, 16
# A block of rows asks for the next one where rows are not longer than these bytes: the machine's own
# prefetching loses track. So do stores, which read the lines that they fill first. In longer rows
# loads ask for what comes so many bytes later.
NEXT_BYTES, NEXT_STORE_BYTES, LATER_BYTES = 8192, 1024, 1024

Point = tuple[Env, Lanes]
# From one element to another, with what is carried: (start, stop, before) -> results.
Part = Callable[[ir.Value, ir.Value, Sequence[ir.Value]], list[ir.Value]]


@dataclass(frozen=True)
class Layout:
    """Lanes (`count` of them) are along `part`; `turned`: rows become lanes in registers."""

    part: Range | None
    count: int
    unroll: int
    turned: bool = False


def find_layout(ctx: KernelContext, statement: Scan, ranges: Sequence[Range]) -> Layout:
    accesses = scan_accesses(statement)
    chosen = choose_range(ranges, accesses, ctx.target)
    if chosen is not None:
        return Layout(chosen, lane_count(ctx, accesses, chosen), 4)
    lanes = _turned_count(ctx, statement, accesses)
    rows = _most_rows(ranges, lanes)
    if rows is not None and _may_turn(ctx, statement, ranges, rows, accesses):
        return Layout(rows, lanes, 1, turned=True)
    # Lanes would gather.
    rows = ranges[-1] if ranges and ranges[-1].extent != 1 else None
    return Layout(rows, 1, ROWS_AT_ONCE)


def _most_rows(ranges: Sequence[Range], lanes: int) -> Range | None:
    """The innermost range that fills the lanes, or the longest."""
    full = [part for part in ranges if not _is_below(part.axis.extent, lanes)]
    if full:
        return full[-1]
    return max(ranges, key=lambda part: part.axis.extent, default=None)  # type: ignore[arg-type]


def _may_turn(
    ctx: KernelContext,
    statement: Scan,
    ranges: Sequence[Range],
    rows: Range,
    accesses: Accesses,
) -> bool:
    """Do the elements of a row lie side by side, and are there enough of them and of rows?"""
    over, count = statement.over, _turned_count(ctx, statement, accesses)
    few = _is_below(rows.axis.extent, LEAST_TURNED)
    if few or _is_below(over.extent, _least_length(statement, count)):
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


def _turned_count(ctx: KernelContext, statement: Scan, accesses: Accesses) -> int:
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


def _is_below(extent: Index, least: int) -> bool:
    return isinstance(extent, int) and extent < least


def scan_blocks(ctx: KernelContext, statement: Scan, lent: Sequence[Range]) -> dict[Axis, int]:
    """The lent axis that an instance takes a block of, with its size."""
    layout = find_layout(ctx, statement, [*lent, *ranges_of(statement.axes)])
    part = layout.part
    if part is None or part not in lent or part.axis.extent == 1:
        return {}
    if layout.turned:
        return {part.axis: layout.count}
    return {part.axis: ROWS_AT_ONCE if layout.count == 1 else ctx.vector_bytes}


def scan_accesses(statement: Scan) -> Accesses:
    accesses = find_accesses([statement.value], [statement.at])
    if statement.kind in ("argmax", "argmin"):
        # Positions are int64 lanes: the value counts as 8 bytes wide.
        return _WideAccesses(accesses.roots, accesses.names, accesses.reads, accesses.writes)
    return accesses


class _WideAccesses(Accesses):
    def lane_bytes(self, axis: str, target: object) -> int:
        return 8


def emit_scan(
    ctx: KernelContext, statement: Scan, env: Env, ranges: Sequence[Range] | None = None
) -> None:
    ranges = ranges_of(statement.axes) if ranges is None else list(ranges)
    layout = find_layout(ctx, statement, ranges)
    scan = _Scan(ctx, statement)
    stores = [scan.store]
    if layout.turned:
        vectors: Range | None = Range(statement.over, 0, statement.over.extent)
    else:
        vectors = layout.part
    streams = streamed_buffers(stores, vectors, layout.count)

    def emit(part: Range | None) -> None:
        if layout.turned:
            with_loads_from_here(ctx, lambda: _emit_turned(scan, layout, ranges, env))
            return
        parts = [part if r is layout.part and part is not None else r for r in ranges]
        with_loads_from_here(
            ctx,
            lambda: emit_ranges(ctx, parts, part, layout.count, layout.unroll, env, scan.chains),
        )

    with_streams(ctx, streams, vectors, env, emit)


class _Scan:
    """One statement: how an element joins, and where results go."""

    def __init__(self, ctx: KernelContext, statement: Scan) -> None:
        self.ctx, self.statement, self.over = ctx, statement, statement.over
        self.is_running = statement.kind == "running_sum"
        kind = "sum" if self.is_running else statement.kind
        self.monoid: Monoid = scan_monoid(kind, statement.value.dtype)
        self.size = len(self.monoid.identity)
        self.store = Store(statement.dest, statement.at, statement.value)

    def identity(self, points: int, count: int) -> list[ir.Value]:
        return [
            constant(ir.VectorType(t, count) if count > 1 else t, v)
            for _ in range(points)
            for t, v in self.monoid.identity
        ]

    def in_parts(self, env: Env, points: int, count: int, part: Part) -> None:
        """The whole row, or chunk by chunk with what stands before each."""
        b = self.ctx.builder
        extent = self.ctx.int_expr(b, self.over.extent, env)
        if not self.is_running:
            part(i64(0), extent, ())
            return
        first = self.identity(points, count)
        with self.ctx.for_loop(b, i64(0), extent, SUM_CHUNK, first) as loop:
            end = b.add(loop.index, i64(SUM_CHUNK), flags=("nsw",))
            stop = b.select(b.icmp_signed("<", end, extent), end, extent)
            results = part(loop.index, stop, loop.carried)
            loop.set_next([b.fadd(x, y) for x, y in zip(loop.carried, results, strict=True)])

    def join(
        self, state: Sequence[ir.Value], element: ir.Value, position: ir.Value | None
    ) -> list[ir.Value]:
        parts = [element] if position is None else [element, position]
        return self.monoid.combine(self.ctx.builder, list(state), parts)

    def result(self, state: Sequence[ir.Value], before: ir.Value | None) -> ir.Value:
        return state[-1] if before is None else self.ctx.builder.fadd(state[-1], before)

    # ---- one element of each row after the other -------------------------------------------

    def chains(self, points: Sequence[Point]) -> None:
        count = points[0][1].count

        def part(start: ir.Value, stop: ir.Value, before: Sequence[ir.Value]) -> list[ir.Value]:
            return self.chain(points, start, stop, self.identity(len(points), count), before)

        self.in_parts(points[0][0], len(points), count, part)

    def chain(
        self,
        points: Sequence[Point],
        start: ir.Value,
        stop: ir.Value,
        first: Sequence[ir.Value],
        before: Sequence[ir.Value],
    ) -> list[ir.Value]:
        size = self.size
        with self.ctx.for_loop(self.ctx.builder, start, stop, 1, first) as loop:
            following: list[ir.Value] = []
            pending = []
            for n, (env, lanes) in enumerate(points):
                inner = {**env, self.over.name: loop.index}
                emitter = ValueEmitter(self.ctx, self.ctx.builder, inner, lanes, {})
                element = emitter.full(self.statement.value)
                position = emitter.spread(loop.index) if size == 2 else None
                state = self.join(loop.carried[n * size : (n + 1) * size], element, position)
                pending.append((emitter, self.result(state, before[n] if before else None)))
                following += state
            # Stores come last: a row that is here twice may lie where its values do.
            for emitter, value in pending:
                put(emitter, self.store, value)
            loop.set_next(following)
        return loop.results


# ---- rows become lanes -------------------------------------------------------------------------


def _emit_turned(scan: _Scan, layout: Layout, ranges: Sequence[Range], env: Env) -> None:
    """Blocks of rows; fewer than LEAST_TURNED that are left go as chains."""
    rows = layout.part
    assert rows is not None
    ctx, b, count, name = scan.ctx, scan.ctx.builder, layout.count, rows.axis.name
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
def _asking_ahead(scan: _Scan, rows: Range, count: int) -> Iterator[None]:
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

    def __init__(self, scan: _Scan, envs: Sequence[Env], rows: Range) -> None:
        self.scan, self.envs, self.count = scan, envs, len(envs)
        dest = scan.store.dest
        distance = _to_next(scan.store.at, rows, self.count)
        near = isinstance(distance, int) and _lies_near(
            distance, dest, self.count, NEXT_STORE_BYTES
        )
        self.stores_ahead = distance if near and dest not in scan.ctx.streamed else 0

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
