"""Reductions over many rows with lanes along a wide kept axis: whole panels of it at a time.

The 32 partials of a panel of columns lie in the cache while the rows stream by in long pieces,
which is what memory likes. Several rows of the same partial are added per visit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import llvmlite.ir as ir

from rushlight.backends.llvm.access import Range
from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.fold import ChunkTree, Fold, States, tree_in_memory
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.monoid import Parts
from rushlight.backends.llvm.nest import bounds, emit_vector_range
from rushlight.backends.llvm.reduce_across import item_values, over_axes_at
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import CHUNK, PARTIALS, Reduce
from rushlight.ir.symint import Expr, Var

# Bytes of a row piece: a page, so that memory streams; and 32 of them stay in the L2 cache.
PANEL_BYTES = 4096
# Rows of one partial that are added in one visit.
VISIT = 4

Store = Callable[[Env, Lanes, Parts], None]
Visit = Callable[[Env, Lanes, ir.Value], None]


def panel_width(element_bytes: int) -> int:
    """Columns of a panel."""
    return PANEL_BYTES // element_bytes


class PanelReduction:
    """All columns of `part`, for one point of the other kept axes."""

    def __init__(
        self,
        ctx: KernelContext,
        statement: Reduce,
        fold: Fold,
        total: int | Expr,
        part: Range,
        count: int,
        store: Store,
    ) -> None:
        self.ctx, self.statement, self.fold, self.total = ctx, statement, fold, total
        self.part, self.count, self.store = part, count, store
        self.vectors = max(1, panel_width(ctx.vector_bytes // count) // count // fold.size)
        self.width = self.vectors * count
        self.partials = States(fold, count, PARTIALS * self.vectors)
        self.joined = States(fold, count, self.vectors)
        one_chunk = isinstance(total, int) and total <= CHUNK
        self.tree = None if one_chunk else ChunkTree(fold, [count], self.vectors)

    def emit(self, env: Env) -> None:
        ctx, b = self.ctx, self.ctx.builder
        elements = ctx.int_expr(b, self.total, env)
        begin, stop = bounds(ctx, self.part, env)
        with ctx.for_range(b, begin, stop, self.width) as first:
            end = b.add(first, i64(self.width), flags=("nsw",))
            last = b.select(b.icmp_signed("<", end, stop), end, stop)
            self.columns = self._columns(first, last)
            self.env = {**env, **self.columns.env}
            self.chunks(elements)
            self.each_column(
                1,
                lambda at_env, lanes, at: self.store(
                    at_env, lanes, self.joined.load_at(at, lanes.count)
                ),
            )

    def _columns(self, first: ir.Value, last: ir.Value) -> PanelColumns:
        start, stop = (Var(f"{self.part.axis.name}.{n}", 0, None, "axis") for n in ("lo", "hi"))
        part = Range(self.part.axis, start, stop)
        b = self.ctx.builder
        vectors = b.udiv(b.add(b.sub(last, first), i64(self.count - 1)), i64(self.count))
        return PanelColumns(part, first, vectors, {start.name: first, stop.name: last})

    def each_column(self, unroll: int, visit: Visit, env: Env | None = None) -> None:
        """visit(env, lanes, column in the panel) for the vectors of the panel."""
        env = self.env if env is None else env
        name = self.part.axis.name

        def body(points: Sequence[tuple[Env, Lanes]]) -> None:
            for at_env, lanes in points:
                at = self.ctx.builder.sub(at_env[name], self.columns.first, flags=("nsw",))
                visit(at_env, lanes, at)

        emit_vector_range(self.ctx, self.columns.part, self.count, unroll, env, body)

    def each_vector(self, visit: Callable[[ir.Value], None]) -> None:
        """visit(number) for the vectors of the panel, the last one perhaps not full."""
        with self.ctx.for_range(self.ctx.builder, i64(0), self.columns.vectors) as number:
            visit(number)

    def chunks(self, elements: ir.Value) -> None:
        """The joined result of every column."""
        ctx, b, tree = self.ctx, self.ctx.builder, self.tree
        if tree is None:
            self.chunk(i64(0), elements)
            return
        some = b.select(b.icmp_signed(">", elements, i64(0)), elements, i64(1))
        chunks = b.udiv(b.add(some, i64(CHUNK - 1)), i64(CHUNK))
        with ctx.for_range(b, i64(0), chunks) as number:
            low = b.mul(number, i64(CHUNK), flags=("nsw",))
            end = b.add(low, i64(CHUNK), flags=("nsw",))
            self.chunk(low, b.select(b.icmp_signed("<", end, elements), end, elements))
            self.each_vector(lambda n: tree.push(number, [self.joined.load(n)], n))
        self.each_vector(lambda n: self.joined.store(n, tree.finish(chunks, n)[0]))

    def chunk(self, low: ir.Value, high: ir.Value) -> None:
        ctx, b = self.ctx, self.ctx.builder
        with ctx.for_range(b, i64(0), i64(PARTIALS)) as partial:
            base = b.mul(partial, i64(self.vectors))
            self.each_vector(
                lambda n: self.partials.store(b.add(base, n), self.fold.identity(self.count))
            )
        turn = PARTIALS * VISIT
        whole = b.add(low, b.and_(b.sub(high, low), i64(-turn)))
        with ctx.for_range(b, low, whole, turn) as first:
            with ctx.for_range(b, i64(0), i64(PARTIALS)) as partial:
                at = b.add(first, partial)
                self.add_rows([b.add(at, i64(PARTIALS * q)) for q in range(VISIT)], partial)
        with ctx.for_range(b, whole, high) as at:
            self.add_rows([at], b.and_(at, i64(PARTIALS - 1)))

        def join(n: ir.Value) -> None:
            self.joined.store(
                n, tree_in_memory(self.partials, lambda p: b.add(n, i64(p * self.vectors)))
            )

        self.each_vector(join)

    def add_rows(self, rows: list[ir.Value], partial: ir.Value) -> None:
        """Fold some elements, in order, into one partial of every column."""
        ctx, b = self.ctx, self.ctx.builder
        base = b.mul(partial, i64(self.width), flags=("nsw",))
        envs = [over_axes_at(ctx, self.statement, self.env, at) for at in rows]

        def visit(at_env: Env, lanes: Lanes, column: ir.Value) -> None:
            slot = b.add(base, column, flags=("nsw",))
            state = self.partials.load_at(slot, lanes.count)
            for at, row_env in zip(rows, envs, strict=True):
                emitter = ValueEmitter(ctx, b, {**at_env, **row_env}, lanes, {})
                values = item_values(self.statement, emitter, at, along_over=False)
                state = self.fold.combine(state, values)
            self.partials.store_at(slot, state)

        self.each_column(2, visit)


class PanelColumns:
    """The columns first <= axis < last of one panel, as a range over named values."""

    def __init__(
        self, part: Range, first: ir.Value, vectors: ir.Value, env: dict[str, ir.Value]
    ) -> None:
        self.part, self.first, self.vectors, self.env = part, first, vectors, env
