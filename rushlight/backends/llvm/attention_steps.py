"""The arithmetic of attention between its two products, for one panel of queries.

In: where the running values of the panel lie (State), a block of scores [key][columns]. Out: code
that changes them as [attention] of tile/ir says. Queries lie in lanes: a panel is `vectors` vectors
of `lanes` queries, and everything here is done vector by vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llvmlite import ir

from rushlight.backends.llvm.context import Env, IndexEmitter, KernelContext, i64, value_type
from rushlight.backends.llvm.memory import any_lane
from rushlight.backends.llvm.micro import turn_kernel
from rushlight.backends.llvm.ops import constant
from rushlight.backends.llvm.pack import in_vectors, lane_mask, min_value
from rushlight.backends.llvm.puts import emit_stores
from rushlight.backends.llvm.schedule import AttentionSchedule
from rushlight.backends.llvm.values import Lanes, emit_value
from rushlight.compiler.tile.ir import AttentionGrid, Store
from rushlight.ir.scalar import E, acc, topological

MINUS_INFINITY = float("-inf")


@dataclass(frozen=True)
class State:
    """Addresses: the largest score and the sum of exponentials per query; sums [ev][columns]."""

    top: ir.Value
    total: ir.Value
    sums: ir.Value


class StepEmitter:
    def __init__(self, ctx: KernelContext, grid: AttentionGrid, s: AttentionSchedule) -> None:
        self.ctx, self.grid, self.schedule = ctx, grid, s
        self.element = value_type(grid.acc_dtype)
        self.vector = ir.VectorType(self.element, s.lanes)
        self.size = grid.acc_dtype.itemsize
        self.acc = acc(grid.acc_dtype)
        self.zero, self.one = constant(self.vector, 0.0), constant(self.vector, 1.0)
        self.lowest = constant(self.vector, MINUS_INFINITY)
        # How much this block shrinks what was summed before it; and whether it does.
        self.shrink = ctx.stack_array(self.element, s.columns)
        self.square = ctx.stack_array(self.element, s.lanes * s.lanes)
        self.reads = any(node.op == "load" for node in topological([grid.score]))

    def begin(self, builder: ir.IRBuilder, state: State, rows: ir.Value) -> None:
        for at in self._vectors():
            self._store(builder, self.lowest, state.top, i64(at))
            self._store(builder, self.zero, state.total, i64(at))
        with self.ctx.for_range(builder, i64(0), rows) as row:
            for at in self._vectors():
                self._store(builder, self.zero, state.sums, self._at(builder, row, at))

    def softmax(
        self, builder: ir.IRBuilder, state: State, env: Env, left: ir.Value, block: ir.Value,
        scores: ir.Value, low: ir.Value, high: ir.Value,
    ) -> None:  # fmt: skip
        """Scores become exponentials in place; top, total and shrink are brought up to date."""
        largest = self._largest(builder, env, left, block, scores, low, high)
        refs, totals = [], []
        for at, here in zip(self._vectors(), largest, strict=True):
            old = self._load(builder, state.top, i64(at))
            new = self._max(builder, here, old)
            nothing = builder.fcmp_ordered("==", new, self.lowest)
            ref = builder.select(nothing, self.zero, new)
            shrink = self._exp(builder, builder.fsub(old, ref))
            self._store(builder, new, state.top, i64(at))
            self._store(builder, shrink, self.shrink, i64(at))
            refs.append(ref)
            totals.append(builder.fmul(self._load(builder, state.total, i64(at)), shrink))
        with self.ctx.for_loop(builder, low, high, 1, totals) as loop:
            added = []
            for at, ref, total in zip(self._vectors(), refs, loop.carried, strict=True):
                place = self._at(builder, loop.index, at)
                p = self._exp(builder, builder.fsub(self._load(builder, scores, place), ref))
                self._store(builder, p, scores, place)
                added.append(builder.fadd(total, p))
            loop.set_next(added)
        for at, total in zip(self._vectors(), loop.results, strict=True):
            self._store(builder, total, state.total, i64(at))

    def _largest(
        self, builder: ir.IRBuilder, env: Env, left: ir.Value, block: ir.Value,
        scores: ir.Value, low: ir.Value, high: ir.Value,
    ) -> list[ir.Value]:  # fmt: skip
        """The score hole, in place; the largest of every query."""
        grid, s = self.grid, self.schedule
        masks = [
            lane_mask(builder, builder.sub(left, i64(at)), s.lanes) if self.reads else None
            for at in self._vectors()
        ]
        index = IndexEmitter(self.ctx, builder, {})
        l0 = env[grid.l.name]
        with self.ctx.for_loop(builder, low, high, 1, [self.lowest] * s.vectors) as loop:
            found = []
            key = index.op("add", block, loop.index)
            for at, mask, best in zip(self._vectors(), masks, loop.carried, strict=True):
                place = self._at(builder, loop.index, at)
                value = self._load(builder, scores, place)
                if grid.score is not self.acc:
                    here = {**env, grid.l.name: index.op("add", l0, i64(at)), grid.s.name: key}
                    lanes = Lanes(s.lanes, grid.l, mask)
                    value = emit_value(
                        self.ctx, builder, grid.score, here, lanes, {}, {self.acc: value}
                    )
                    self._store(builder, value, scores, place)
                found.append(self._max(builder, value, best))
            loop.set_next(found)
        return loop.results

    def rescale(self, builder: ir.IRBuilder, state: State, rows: ir.Value) -> None:
        """Shrink the sums; nothing to do when no query has a new largest score."""
        shrinks = [self._load(builder, self.shrink, i64(at)) for at in self._vectors()]
        changes = [builder.fcmp_unordered("!=", shrink, self.one) for shrink in shrinks]
        change = changes[0]
        for other in changes[1:]:
            change = builder.or_(change, other)
        with builder.if_then(any_lane(builder, change)):
            with self.ctx.for_range(builder, i64(0), rows) as row:
                for at, shrink in zip(self._vectors(), shrinks, strict=True):
                    place = self._at(builder, row, at)
                    value = self._load(builder, state.sums, place)
                    self._store(builder, builder.fmul(value, shrink), state.sums, place)

    # ---- the end -------------------------------------------------------------------------

    def finish(
        self, builder: ir.IRBuilder, state: State, env: Env, left: ir.Value, turned: ir.Value
    ) -> None:
        """The output of a panel, turned to [query][ev], and the stores."""
        ctx, grid, s = self.ctx, self.grid, self.schedule
        width = ctx.int_expr(builder, grid.ev.extent, {})
        self._lse(builder, state, env, left)
        padded = builder.and_(builder.add(width, i64(s.lanes - 1)), i64(-s.lanes))
        for at in self._vectors():
            total = self._load(builder, state.total, i64(at))
            nothing = builder.fcmp_ordered("==", total, self.zero)
            factor = builder.fdiv(self.one, builder.select(nothing, self.one, total))
            with ctx.for_range(builder, i64(0), width, s.lanes) as column:
                with ctx.for_range(builder, i64(0), i64(s.lanes)) as row:
                    place = self._at(builder, builder.add(column, row), at)
                    value = self._load(builder, state.sums, place)
                    to = builder.mul(row, i64(s.lanes))
                    self._store(builder, builder.fmul(value, factor), self.square, to)
                to = builder.add(builder.mul(i64(at), padded), column)
                turn = turn_kernel(ctx.module, s.lanes, grid.acc_dtype)
                builder.call(turn, [self.square, self._place(builder, turned, to), padded])
        rows = min_value(builder, left, i64(s.columns))
        with ctx.for_range(builder, i64(0), rows) as row:
            index = IndexEmitter(ctx, builder, {})
            query = index.op("add", env[grid.l.name], row)

            def put(column: ir.Value, mask: ir.Value | None) -> None:
                value = self._load(builder, turned, builder.add(builder.mul(row, padded), column))
                here = {**env, grid.l.name: query, grid.ev.name: column}
                self._stores(builder, grid.stores, here, Lanes(s.lanes, grid.ev, mask), value)

            in_vectors(ctx, builder, width, s.lanes, put)

    def _lse(self, builder: ir.IRBuilder, state: State, env: Env, left: ir.Value) -> None:
        grid, s = self.grid, self.schedule
        if not grid.lse_stores:
            return

        def put(at: ir.Value, mask: ir.Value | None) -> None:
            total = self._load(builder, state.total, at)
            lanes = Lanes(s.lanes)
            log = emit_value(self.ctx, builder, grid.log, {}, lanes, {}, {self.acc: total})
            value = builder.fadd(self._load(builder, state.top, at), log)
            query = IndexEmitter(self.ctx, builder, {}).op("add", env[grid.l.name], at)
            here = {**env, grid.l.name: query}
            self._stores(builder, grid.lse_stores, here, Lanes(s.lanes, grid.l, mask), value)

        rows = min_value(builder, left, i64(s.columns))
        in_vectors(self.ctx, builder, rows, s.lanes, put)

    def _stores(
        self, builder: ir.IRBuilder, stores: tuple[Store, ...], env: Env, lanes: Lanes,
        value: ir.Value,
    ) -> None:  # fmt: skip
        known: dict[E, ir.Value] = {self.acc: value}
        emit_stores(self.ctx, builder, stores, env, lanes, known)

    # ---- vectors -------------------------------------------------------------------------

    def _vectors(self) -> Iterator[int]:
        """Where the vectors of a panel begin."""
        return iter(range(0, self.schedule.columns, self.schedule.lanes))

    def _max(self, builder: ir.IRBuilder, x: ir.Value, best: ir.Value) -> ir.Value:
        """The larger one; `best` where x is NaN (one instruction on x86)."""
        return builder.select(builder.fcmp_ordered(">", x, best), x, best)

    def _exp(self, builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
        lanes = Lanes(self.schedule.lanes)
        return emit_value(self.ctx, builder, self.grid.exp, {}, lanes, {}, {self.acc: x})

    def _at(self, builder: ir.IRBuilder, row: ir.Value, column: int) -> ir.Value:
        return builder.add(builder.mul(row, i64(self.schedule.columns)), i64(column))

    def _place(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.gep(base, [at], source_etype=self.element)

    def _load(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.load(self._place(builder, base, at), typ=self.vector, align=self.size)

    def _store(self, builder: ir.IRBuilder, value: ir.Value, base: ir.Value, at: ir.Value) -> None:
        builder.store(value, self._place(builder, base, at), align=self.size)
