"""Reductions with lanes along a kept axis (or a single lane): each lane folds its own elements.

Some partials of some neighbouring vectors are held in registers while the rows of a chunk that
belong to them stream by; then the next partials. All 32 meet in stack memory for the tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir

from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.fold import ChunkTree, Fold, States, over_chunks, tree_in_memory
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.monoid import Parts
from rushlight.backends.llvm.reduce_across import item_values, over_axes_at
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import PARTIALS, Reduce
from rushlight.ir.symint import Expr

# Up to this many elements are folded without loops.
STRAIGHT = 16


class ColumnReduction:
    """Some neighbouring vectors of points (all with the same lane count)."""

    def __init__(
        self,
        ctx: KernelContext,
        statement: Reduce,
        fold: Fold,
        total: int | Expr,
        points: Sequence[tuple[Env, Lanes]],
    ) -> None:
        self.ctx, self.statement, self.fold, self.total = ctx, statement, fold, total
        self.points = points
        self.count = points[0][1].count
        self.width = len(points)

    def emit(self) -> list[Parts]:
        static = self.total if isinstance(self.total, int) else None
        elements = self.ctx.int_expr(self.ctx.builder, self.total, self.points[0][0])
        if self.statement.order == "tree":
            return self.tree_order(elements)
        if static is not None and static <= STRAIGHT:
            return self.straight(static)
        self.partials = States(self.fold, self.count, PARTIALS * self.width)
        self.joined = States(self.fold, self.count, self.width)
        counts = [self.count] * self.width
        return over_chunks(self.ctx, self.fold, static, elements, counts, self.chunk)

    def chunk(self, low: ir.Value, high: ir.Value) -> list[Parts]:
        b = self.ctx.builder
        whole = b.add(low, b.and_(b.sub(high, low), i64(-PARTIALS)))
        self.whole_turns(low, whole)
        with self.ctx.for_range(b, whole, high) as at:
            first = b.mul(b.sub(at, whole), i64(self.width))
            for n, values in enumerate(self.elements(at)):
                slot = b.add(first, i64(n))
                self.partials.store(slot, self.fold.combine(self.partials.load(slot), values))
        with self.ctx.for_range(b, i64(0), i64(self.width)) as n:
            state = tree_in_memory(self.partials, lambda p: b.add(n, i64(p * self.width)))
            self.joined.store(n, state)
        return [self.joined.load(i64(n)) for n in range(self.width)]

    def whole_turns(self, low: ir.Value, whole: ir.Value) -> None:
        """Rows low .. whole (a multiple of 32): `held` partials at a time."""
        ctx, b, size = self.ctx, self.ctx.builder, self.fold.size
        held = self._held_partials()
        with ctx.for_range(b, i64(0), i64(PARTIALS), held) as group:
            start = b.add(low, group)
            stop = b.add(whole, group)
            identity = self.fold.identity(self.count) * (held * self.width)
            with ctx.for_loop(b, start, stop, PARTIALS, identity) as loop:
                following: Parts = []
                for q in range(held):
                    at = b.add(loop.index, i64(q), flags=("nsw",)) if q else loop.index
                    for values in self.elements(at):
                        old = loop.carried[len(following) : len(following) + size]
                        following += self.fold.combine(old, values)
                loop.set_next(following)
            first = b.mul(group, i64(self.width))
            for n in range(held * self.width):
                state = loop.results[n * size : (n + 1) * size]
                self.partials.store(b.add(first, i64(n)), state)

    def _held_partials(self) -> int:
        """A power of two that leaves registers for the values."""
        budget = 16 if self.ctx.target.registers == 32 else 8
        held = 8
        while held > 1 and held * self.width * self.fold.size > budget:
            held //= 2
        return held

    def elements(self, at: ir.Value) -> list[Parts]:
        """The values of flattened element `at` for every vector of points."""
        ctx = self.ctx
        places = over_axes_at(ctx, self.statement, self.points[0][0], at)
        found = []
        for env, lanes in self.points:
            emitter = ValueEmitter(ctx, ctx.builder, {**env, **places}, lanes, {})
            found.append(item_values(self.statement, emitter, at, along_over=False))
        return found

    def straight(self, total: int) -> list[Parts]:
        """A few elements: the tree written out. Joining an untouched partial changes nothing
        (a touched one is never -0.0), so it is left out."""
        rows = [self.elements(i64(at)) for at in range(total)]
        identity = self.fold.identity(self.count)
        results = []
        for n in range(self.width):
            parts: list[Parts | None] = [self.fold.combine(identity, row[n]) for row in rows]
            parts += [None] * (PARTIALS - total)
            while len(parts) > 1:
                half = len(parts) // 2
                parts = [self._join(parts[i], parts[i + half]) for i in range(half)]
            results.append(identity if parts[0] is None else parts[0])
        return results

    def _join(self, x: Parts | None, y: Parts | None) -> Parts | None:
        if x is None or y is None:
            return x if y is None else y
        return self.fold.combine(x, y)

    def tree_order(self, elements: ir.Value) -> list[Parts]:
        """The elements are chunk results already."""
        ctx, b = self.ctx, self.ctx.builder
        tree = ChunkTree(self.fold, [self.count] * self.width)
        with ctx.for_range(b, i64(0), elements) as at:
            tree.push(at, self.elements(at))
        none = b.icmp_signed("<=", elements, i64(0))
        found = tree.finish(b.select(none, i64(1), elements))
        identity = self.fold.identity(self.count)
        return [self.fold.select(none, identity, state) for state in found]
