"""Attention: an AttentionGrid becomes one kernel function and two micro kernels.

An instance computes a block of queries of one batch element. Queries lie in the lanes of vectors,
so a softmax over keys is arithmetic between vectors and never crosses lanes:

    for each panel of queries: pack q as [e][columns]                      -> L2
    for each block of keys:                                     (KEY_BLOCK)
        pack k as panels of rows, v as panels of [key][rows]               -> L1 or L2
        for each panel of queries that sees the block:
            scores [key][columns] = k @ q^T       micro kernel, from 0
            the score hole, the largest, p = exp(score - largest), their sums: attention_steps.py
            sums [ev][columns] = sums * shrink + v^T @ p         micro kernel
    divide by the sums of p, turn to [query][ev], the stores

Always true: [attention] of tile/ir says what is computed; the size of the query block, the panels
and the registers are free. A panel of queries lies in one QUERY_GROUP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from rushlight.backends.llvm.attention_steps import State, StepEmitter
from rushlight.backends.llvm.context import I1, Env, IndexEmitter, KernelContext, i64
from rushlight.backends.llvm.micro import MicroShape, micro_kernel
from rushlight.backends.llvm.pack import Operand, PackEmitter, Panel, min_value
from rushlight.backends.llvm.schedule import (
    AttentionSchedule,
    along_k,
    choose_attention_schedule,
    dot_grain,
)
from rushlight.backends.llvm.types import Launch, Scratch
from rushlight.base.dtypes import float32, float64
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import KEY_BLOCK, QUERY_GROUP, AttentionGrid, Program
from rushlight.ir.scalar import cast
from rushlight.ir.symint import Expr, ceildiv, maximum, product

ALIGN = 64
Index = int | Expr


def lower_attention_grid(
    context: Callable[[str], KernelContext],
    program: Program,
    grid: AttentionGrid,
    caps: Caps,
    schedule: AttentionSchedule | None = None,
) -> tuple[list[Launch], list[Scratch]]:
    """The launch of an attention; `schedule` overrides the chosen one (same bits)."""
    if grid.acc_dtype not in (float32, float64):
        raise TypeError(
            f"{program.name}: AttentionGrid.acc_dtype is {grid.acc_dtype.name}; allowed are "
            "float32 and float64"
        )
    ctx = context("")
    schedule = schedule or choose_attention_schedule(grid, ctx.target, caps.threads)
    emitter = AttentionEmitter(ctx, grid, schedule)
    emitter.emit()
    pairs = schedule.queries * grid.s.extent
    work = maximum(pairs * (grid.e.extent + grid.ev.extent + 16) // schedule.lanes, 1)
    count, local = product(emitter.extents), emitter.layout.total
    return [Launch(ctx.function.name, 0, count, local, dot_grain(work), work)], []


@dataclass(frozen=True)
class Layout:
    """Byte offsets of the parts of an instance's scratch, and their total."""

    k: Index
    v: Index
    sums: Index
    state: Index
    scores: Index
    turned: Index
    total: Index


class AttentionEmitter:
    def __init__(
        self, ctx: KernelContext, grid: AttentionGrid, schedule: AttentionSchedule
    ) -> None:
        self.ctx, self.grid, self.schedule = ctx, grid, schedule
        s, dtype = schedule, grid.acc_dtype
        q, k, v = (cast(value, dtype) for value in (grid.q, grid.k, grid.v))
        # Rows of k side by side stay as they lie; a row length that is no number is turned.
        features = grid.e.extent
        k_turned = along_k(grid.k, grid.s, grid.e)
        is_row = isinstance(features, int) and k_turned
        self.k_step = ceildiv(features, s.lanes) * s.lanes + s.lanes if is_row else None
        v_turned = along_k(grid.v, grid.ev, grid.s)
        self.v_step = KEY_BLOCK + s.lanes if v_turned else None
        steps = (self.k_step, 1) if self.k_step else (1, s.key_rows)
        k_shape = MicroShape(s.key_rows, s.vectors, s.lanes, dtype, *steps)
        steps = (self.v_step, 1) if self.v_step else (1, s.value_rows)
        v_shape = MicroShape(s.value_rows, s.vectors, s.lanes, dtype, *steps)
        self.k_micro = micro_kernel(ctx.module, k_shape, ctx.target)
        self.v_micro = micro_kernel(ctx.module, v_shape, ctx.target)
        q_turned = along_k(grid.q, grid.l, grid.e)
        self.q = Operand(q, grid.l, grid.e, s.columns, s.lanes, q_turned, dtype)
        self.k = Operand(k, grid.s, grid.e, s.key_rows, s.lanes, k_turned, dtype, self.k_step)
        self.v = Operand(v, grid.ev, grid.s, s.value_rows, s.lanes, v_turned, dtype, self.v_step)
        self.width = ceildiv(grid.ev.extent, s.value_rows) * s.value_rows
        self.turned_width = ceildiv(grid.ev.extent, s.lanes) * s.lanes
        self.layout = self._layout()
        self.extents = [*(a.extent for a in grid.batch), ceildiv(grid.l.extent, s.queries)]

    def _layout(self) -> Layout:
        s, grid = self.schedule, self.grid
        panels = s.queries // s.columns
        keys = -(-KEY_BLOCK // s.key_rows) * s.key_rows
        at: Index = 0
        starts = []
        # A panel of sums has room for whole vectors along ev, which are read when it is turned.
        self.sums_room = maximum(self.width, self.turned_width) * s.columns
        for elements in (
            s.queries * grid.e.extent + self.q.slack,
            keys * (self.k_step or grid.e.extent) + self.k.slack,
            maximum(self.width, 1) * (self.v_step or KEY_BLOCK) + self.v.slack,
            panels * self.sums_room,
            2 * s.queries,
            keys * s.columns,
            s.columns * self.turned_width,
        ):
            starts.append(at)
            at = at + ceildiv(elements * grid.acc_dtype.itemsize, ALIGN) * ALIGN
        return Layout(*starts[1:], at)

    # ---- the instance --------------------------------------------------------------------

    def emit(self) -> None:
        ctx, grid, s = self.ctx, self.grid, self.schedule
        packs = [PackEmitter(ctx, operand) for operand in (self.q, self.k, self.v)]
        self.pack_q, self.pack_k, self.pack_v = packs
        self.steps = StepEmitter(ctx, grid, s)
        with ctx.instances(self.extents) as coordinates:
            builder = ctx.builder
            *batch, block = coordinates
            env = {axis.name: at for axis, at in zip(grid.batch, batch, strict=True)}
            l0 = builder.mul(block, i64(s.queries))
            length = ctx.int_expr(builder, grid.l.extent, {})
            rows = min_value(builder, builder.sub(length, l0), i64(s.queries))
            self.parts = {
                name: self._bytes(builder, getattr(self.layout, name))
                for name in ("k", "v", "sums", "state", "scores", "turned")
            }
            self._begin(builder, env, l0, rows)
            self._all_keys(builder, env, l0, rows)
            with ctx.for_range(builder, i64(0), rows, s.columns) as panel:
                state = self._state(builder, panel)
                at = {**env, grid.l.name: self._plus(builder, l0, panel)}
                left = builder.sub(rows, panel)
                self.steps.finish(builder, state, at, left, self.parts["turned"])

    def _begin(self, builder: ir.IRBuilder, env: Env, l0: ir.Value, rows: ir.Value) -> None:
        """Pack the queries; no sums yet."""
        ctx, s = self.ctx, self.schedule
        features = ctx.int_expr(builder, self.grid.e.extent, {})
        with ctx.for_range(builder, i64(0), rows, s.columns) as panel:
            target = self._elements(builder, ctx.args.local, builder.mul(panel, features))
            first, left = self._plus(builder, l0, panel), builder.sub(rows, panel)
            self.pack_q.emit(builder, Panel(target, first, left, i64(0), features), env)
            self.steps.begin(builder, self._state(builder, panel), self._sums_rows(builder))

    def _all_keys(self, builder: ir.IRBuilder, env: Env, l0: ir.Value, rows: ir.Value) -> None:
        ctx, s = self.ctx, self.schedule
        first, stop = self._range(builder, l0, rows)
        start = builder.and_(first, i64(-KEY_BLOCK))
        with ctx.for_range(builder, start, stop, KEY_BLOCK) as block:
            keys = min_value(builder, builder.sub(stop, block), i64(KEY_BLOCK))
            self._pack_keys(builder, env, block, keys)
            with ctx.for_range(builder, i64(0), rows, s.columns) as panel:
                # The group of the panel, not the panel: what is seen does not depend on its size.
                group = builder.and_(panel, i64(-QUERY_GROUP))
                here = min_value(builder, builder.sub(rows, group), i64(QUERY_GROUP))
                low, high = self._range(builder, builder.add(l0, group), here)
                low = self._larger(builder, builder.sub(low, block), i64(0))
                high = min_value(builder, builder.sub(high, block), i64(KEY_BLOCK))
                with builder.if_then(builder.icmp_signed("<", low, high)):
                    self._block(builder, env, l0, panel, block, low, high, rows)

    def _range(
        self, builder: ir.IRBuilder, l0: ir.Value, rows: ir.Value
    ) -> tuple[ir.Value, ir.Value]:
        """The keys that `rows` queries from l0 on see."""
        ctx, grid = self.ctx, self.grid
        last = builder.sub(builder.add(l0, rows), i64(1))
        first = ctx.int_expr(builder, grid.first, {grid.l.name: l0})
        stop = ctx.int_expr(builder, grid.stop, {grid.l.name: last})
        keys = ctx.int_expr(builder, grid.s.extent, {})
        return self._larger(builder, first, i64(0)), min_value(builder, stop, keys)

    def _pack_keys(self, builder: ir.IRBuilder, env: Env, block: ir.Value, keys: ir.Value) -> None:
        ctx, grid, s = self.ctx, self.grid, self.schedule
        features = ctx.int_expr(builder, grid.e.extent, {})
        with ctx.for_range(builder, i64(0), keys, s.key_rows) as row:
            first, left = self._plus(builder, block, row), builder.sub(keys, row)
            panel = Panel(self._k_panel(builder, row), first, left, i64(0), features)
            self.pack_k.emit(builder, panel, env)
        width = ctx.int_expr(builder, grid.ev.extent, {})
        with ctx.for_range(builder, i64(0), width, s.value_rows) as row:
            panel = Panel(self._v_panel(builder, row), row, builder.sub(width, row), block, keys)
            self.pack_v.emit(builder, panel, env)

    def _block(
        self, builder: ir.IRBuilder, env: Env, l0: ir.Value, panel: ir.Value, block: ir.Value,
        low: ir.Value, high: ir.Value, rows: ir.Value,
    ) -> None:  # fmt: skip
        """Keys block + low.. up to block + high of one panel of queries."""
        ctx, grid, s = self.ctx, self.grid, self.schedule
        features = ctx.int_expr(builder, grid.e.extent, {})
        q_panel = self._elements(builder, ctx.args.local, builder.mul(panel, features))
        scores = self.parts["scores"]
        columns = i64(s.columns)
        with ctx.for_range(builder, i64(0), high, s.key_rows) as row:
            target = self._elements(builder, scores, builder.mul(row, columns))
            args = [self._k_panel(builder, row), q_panel, columns, features, target, I1(1)]
            builder.call(self.k_micro, args)
        state = self._state(builder, panel)
        at = {**env, grid.l.name: self._plus(builder, l0, panel)}
        left = builder.sub(rows, panel)
        self.steps.softmax(builder, state, at, left, block, scores, low, high)
        width = self._value(builder, self.width)
        self.steps.rescale(builder, state, width)
        key_step = i64(1 if self.v_step else s.value_rows)
        with ctx.for_range(builder, i64(0), width, s.value_rows) as row:
            v_panel = self._v_panel(builder, row)
            v_panel = self._elements(builder, v_panel, builder.mul(low, key_step))
            p = self._elements(builder, scores, builder.mul(low, columns))
            target = self._elements(builder, state.sums, builder.mul(row, columns))
            args = [v_panel, p, columns, builder.sub(high, low), target, I1(0)]
            builder.call(self.v_micro, args)

    # ---- places --------------------------------------------------------------------------

    def _k_panel(self, builder: ir.IRBuilder, row: ir.Value) -> ir.Value:
        step = self._value(builder, self.k_step or self.grid.e.extent)
        return self._elements(builder, self.parts["k"], builder.mul(row, step))

    def _v_panel(self, builder: ir.IRBuilder, row: ir.Value) -> ir.Value:
        step = i64(self.v_step or KEY_BLOCK)
        return self._elements(builder, self.parts["v"], builder.mul(row, step))

    def _state(self, builder: ir.IRBuilder, panel: ir.Value) -> State:
        """Where the running values of a panel of queries lie."""
        s = self.schedule
        number = builder.sdiv(panel, i64(s.columns))
        room = self._value(builder, self.sums_room)
        top = self._elements(builder, self.parts["state"], panel)
        total = self._elements(builder, self.parts["state"], builder.add(panel, i64(s.queries)))
        sums = self._elements(builder, self.parts["sums"], builder.mul(number, room))
        return State(top, total, sums)

    def _sums_rows(self, builder: ir.IRBuilder) -> ir.Value:
        return self._value(builder, maximum(self.width, self.turned_width))

    def _value(self, builder: ir.IRBuilder, expr: Index) -> ir.Value:
        return self.ctx.int_expr(builder, expr, {})

    def _plus(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        """Added where both are known, so that what depends on one of them leaves inner loops."""
        return IndexEmitter(self.ctx, builder, {}).op("add", a, b)

    @staticmethod
    def _larger(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        return builder.select(builder.icmp_signed(">", a, b), a, b)

    def _elements(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.gep(base, [at], source_etype=self.q.element)

    def _bytes(self, builder: ir.IRBuilder, offset: Index) -> ir.Value:
        at = self._value(builder, offset)
        return builder.gep(self.ctx.args.local, [at], source_etype=ir.IntType(8))
