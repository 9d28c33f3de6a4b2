"""What a scan folds: how an element joins what was before it, and where the result goes.

In: a Scan. Out: code for chains, one element of each row (or of each lane's row) after the other. A
running sum (see [running sums] in compiler/tile/ir.py) goes chunk by chunk, and what stands before
the chunk is carried along with the fold in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import llvmlite.ir as ir

from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.monoid import Monoid, scan_monoid
from rushlight.backends.llvm.ops import constant
from rushlight.backends.llvm.puts import put
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import SUM_CHUNK, Scan, Store

Point = tuple[Env, Lanes]
# From one element to another, with what stands before them: (start, stop, before) -> results.
Part = Callable[[ir.Value, ir.Value, Sequence[ir.Value]], list[ir.Value]]


class Folding:
    """One statement. `size`: values that a row's state has (of extremes with positions, two)."""

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
