"""Packing: one panel of an operand of a contraction, evaluated into scratch.

In: the operand's expression (a prologue: loads through views, casts, elementwise), where the panel
begins, how many of its lanes exist. Out: code that fills the panel; what lies in lanes that do not
exist is never used, but it is no leftover memory (a denormal number there would be slow).
Three ways, chosen by the schedule and the side:
  straight  vectors lie along the lane axis (m or n):            stored as [k][width]
  turned    vectors lie along k, square blocks are turned:       stored as [k][width]
  rows      vectors lie along k (only for a, which is broadcast): stored as [width][row_step]
A panel [k][width] narrower than a vector is stored in ascending k with overlap: what spills over
the end of one k is overwritten by the next. `slack` is what may be written behind a panel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from llvmlite import ir

from rushlight.backends.llvm.access import find_accesses, free_names, is_read
from rushlight.backends.llvm.context import (
    I32,
    Env,
    IndexEmitter,
    KernelContext,
    i64,
    value_type,
)
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.memory import CACHE_LINE, prefetch
from rushlight.backends.llvm.micro import turn_kernel
from rushlight.backends.llvm.ops import constant, splat
from rushlight.backends.llvm.schedule import PLAIN_COST
from rushlight.backends.llvm.values import ValueEmitter, emit_value
from rushlight.base.dtypes import DType, int32
from rushlight.compiler.tile.ir import Axis
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr

# Up to four loads, side by side in one number (dot_words.py).
WORD_COST = 24
# Steps of k between asking for memory and packing it (measured: 4 is too few, 24 no better).
ROWS_AHEAD = 12


@dataclass(frozen=True)
class Operand:
    """One side of a contraction: `width` lanes of `axis` per k, in vectors of `lanes`."""

    value: E
    axis: Axis
    k: Axis
    width: int
    lanes: int
    along_k: bool
    dtype: DType
    row_step: int | Expr | None = None  # None: the panel is [k][width]
    # Do vectors start at multiples of `lanes` of the axis that they lie along?
    aligned: bool = False
    # Is what lies behind the last k of a row 0, up to a whole vector?
    zero_tail: bool = False

    @property
    def element(self) -> ir.Type:
        return value_type(self.dtype)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def slack(self) -> int:
        """Elements that packing may write behind a panel."""
        return self.lanes * (self.width + 1)

    @property
    def is_plain(self) -> bool:
        """Little more than loads, so nothing is worth computing ahead for all k."""
        cost = find_accesses([self.value], ()).cost()
        return cost <= (WORD_COST if self.dtype is int32 else PLAIN_COST)


@dataclass(frozen=True)
class Panel:
    """Where one panel comes from and goes to: lanes first.. (`left` of them exist), k0.. (kc)."""

    target: ir.Value
    first: ir.Value
    left: ir.Value
    k0: ir.Value
    kc: ir.Value


def lane_mask(builder: ir.IRBuilder, left: ir.Value, lanes: int) -> ir.Value:
    """Lane l is on when l < left."""
    steps = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
    return builder.icmp_signed("<", steps, splat(builder, builder.trunc(left, I32), lanes))


def in_vectors(
    ctx: KernelContext,
    builder: ir.IRBuilder,
    count: ir.Value,
    lanes: int,
    body: Callable[[ir.Value, ir.Value | None], None],
) -> None:
    """body(start, mask) for start = 0, lanes, ... < count; only the last, short one has a mask."""
    whole = builder.mul(builder.sdiv(count, i64(lanes)), i64(lanes))
    with ctx.for_range(builder, i64(0), whole, lanes) as start:
        body(start, None)
    with ctx.for_range(builder, whole, count, lanes) as start:
        body(start, lane_mask(builder, builder.sub(count, start), lanes))


def min_value(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


class PackEmitter:
    """Emits the packing of one operand; `emit` may be called once per function."""

    def __init__(self, ctx: KernelContext, operand: Operand) -> None:
        self.ctx, self.operand = ctx, operand
        o = operand
        self.align = o.lanes * o.itemsize
        self.plain = o.is_plain
        turned = o.along_k and o.row_step is None
        self.tile = ctx.stack_array(o.element, o.lanes * o.lanes) if turned else None

    def emit(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        if self.operand.row_step is not None:
            self._rows(builder, panel, env)
        elif self.operand.along_k:
            self._turned(builder, panel, env)
        else:
            self._straight(builder, panel, env)

    def _value(
        self,
        builder: ir.IRBuilder,
        panel: Panel,
        env: Env,
        at: tuple[ir.Value, ir.Value],
        mask: ir.Value | None,
    ) -> ir.Value:
        """A vector of the operand from lane `first + at[0]` and k `k0 + at[1]` on."""
        o = self.operand
        # Added where both are known, so that what depends on one of them leaves the other's loop.
        place = IndexEmitter(self.ctx, builder, {})
        lane, k = place.op("add", panel.first, at[0]), place.op("add", panel.k0, at[1])
        lanes = Lanes(o.lanes, o.k if o.along_k else o.axis, mask, o.aligned)
        inner = {**env, o.axis.name: lane, o.k.name: k}
        return emit_value(self.ctx, builder, o.value, inner, lanes, {})

    def _store(
        self, builder: ir.IRBuilder, panel: Panel, value: ir.Value, lane: ir.Value, k: ir.Value
    ) -> None:
        o = self.operand
        at = builder.add(builder.mul(k, i64(o.width)), lane)
        pointer = builder.gep(panel.target, [at], source_etype=o.element)
        builder.store(value, pointer, align=o.itemsize)

    def _straight(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        o, ctx = self.operand, self.ctx
        vectors = -(-o.width // o.lanes) * o.lanes
        exist = min_value(builder, panel.left, i64(vectors))

        def put(lane: ir.Value, k: ir.Value, mask: ir.Value | None) -> None:
            value = self._value(builder, panel, env, (lane, k), mask)
            self._store(builder, panel, value, lane, k)

        def put_all_k(lane: ir.Value, mask: ir.Value | None) -> None:
            with ctx.for_range(builder, i64(0), panel.kc) as k:
                put(lane, k, mask)

        if self.plain:  # memory side by side is read together
            with ctx.for_range(builder, i64(0), panel.kc) as k:
                in_vectors(ctx, builder, exist, o.lanes, lambda lane, mask: put(lane, k, mask))
        else:  # what depends on the lane (a division in an index) is computed once for all k
            in_vectors(ctx, builder, exist, o.lanes, put_all_k)
        if vectors == o.lanes:
            return
        used = builder.sdiv(builder.add(exist, i64(o.lanes - 1)), i64(o.lanes))
        up = builder.mul(used, i64(o.lanes))
        zero = constant(ir.VectorType(o.element, o.lanes), 0)
        missing = ctx.for_range(builder, up, i64(vectors), o.lanes)
        with missing as lane, ctx.for_range(builder, i64(0), panel.kc) as k:
            self._store(builder, panel, zero, lane, k)

    @property
    def in_groups(self) -> bool:
        """Can `emit_group` be used: rows of memory that are read as they lie?"""
        return self.plain and not self.operand.along_k and self.operand.row_step is None

    def whole_panels(self, builder: ir.IRBuilder, left: ir.Value) -> ir.Value:
        """How many of the panels that begin within `left` lanes need no mask."""
        o = self.operand
        vectors = -(-o.width // o.lanes) * o.lanes
        fit = builder.sdiv(builder.add(left, i64(o.width - vectors)), i64(o.width))
        return builder.select(builder.icmp_signed(">=", left, i64(vectors)), fit, i64(0))

    def emit_group(
        self, builder: ir.IRBuilder, panel: Panel, env: Env, count: ir.Value, step: ir.Value
    ) -> None:
        """`count` whole panels, `step` elements apart, in one sweep over k.

        One panel is a column a few cache lines wide: with rows a power of two apart, its lines
        drive each other out before the next panel comes for the rest of them.
        """
        o, ctx = self.operand, self.ctx
        with ctx.for_range(builder, i64(0), panel.kc) as k:
            self._ask_ahead(builder, panel, env, k, builder.mul(count, i64(o.width)))
            with ctx.for_range(builder, i64(0), count) as number:
                at = builder.mul(number, step)
                target = builder.gep(panel.target, [at], source_etype=o.element)
                first = builder.add(panel.first, builder.mul(number, i64(o.width)))
                here = replace(panel, target=target, first=first)
                for lane in range(0, o.width, o.lanes):
                    value = self._value(builder, here, env, (i64(lane), k), None)
                    self._store(builder, here, value, i64(lane), k)

    def _ask_ahead(
        self, builder: ir.IRBuilder, panel: Panel, env: Env, k: ir.Value, width: ir.Value
    ) -> None:
        """Prefetch `width` lanes of a later k: hardware does not follow steps of a whole row."""
        o = self.operand
        later = builder.add(builder.add(panel.k0, k), i64(ROWS_AHEAD))
        names = free_names([o.value])
        loads = dict.fromkeys(
            node.meta
            for node in list(names)
            if node.op == "load" and not node.args and not is_read(node.meta[1], o.k.name, names)
        )
        with self.ctx.for_range(builder, i64(0), width, CACHE_LINE // o.itemsize) as lane:
            inner = {**env, o.axis.name: builder.add(panel.first, lane), o.k.name: later}
            emitter = ValueEmitter(self.ctx, builder, inner, Lanes(), {})
            for buffer, at in loads:
                prefetch(builder, emitter.pointer(buffer, at))

    def _rows(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        """Each lane is a row of k; the short last vector spills into the gap between rows."""
        o, ctx = self.operand, self.ctx
        exist = min_value(builder, panel.left, i64(o.width))
        step = ctx.int_expr(builder, o.row_step, {})

        def place(row: ir.Value, k: ir.Value) -> ir.Value:
            at = builder.add(builder.mul(row, step), k)
            return builder.gep(panel.target, [at], source_etype=o.element)

        with ctx.for_range(builder, i64(0), exist) as row:

            def fill(k: ir.Value, mask: ir.Value | None) -> None:
                value = self._value(builder, panel, env, (row, k), mask)
                if mask is not None and o.zero_tail:
                    value = builder.select(mask, value, constant(value.type, 0))
                builder.store(value, place(row, k), align=o.itemsize)

            in_vectors(ctx, builder, panel.kc, o.lanes, fill)
        zero = constant(ir.VectorType(o.element, o.lanes), 0)
        missing = ctx.for_range(builder, exist, i64(o.width))
        with missing as row, ctx.for_range(builder, i64(0), panel.kc, o.lanes) as k:
            builder.store(zero, place(row, k), align=o.itemsize)

    def _turned(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        o, ctx = self.operand, self.ctx
        with ctx.for_range(builder, i64(0), i64(o.width), o.lanes) as lane:
            left = builder.sub(panel.left, lane)
            rows = min_value(builder, left, i64(min(o.lanes, o.width)))
            from_row = builder.select(builder.icmp_signed(">", rows, i64(0)), rows, i64(0))
            with ctx.for_range(builder, from_row, i64(o.lanes)) as row:
                zero = constant(ir.VectorType(o.element, o.lanes), 0)
                builder.store(zero, self._row(builder, row), align=self.align)

            def fill(k: ir.Value, mask: ir.Value | None, lane=lane, rows=rows) -> None:
                with ctx.for_range(builder, i64(0), rows) as row:
                    at = (builder.add(lane, row), k)
                    value = self._value(builder, panel, env, at, mask)
                    builder.store(value, self._row(builder, row), align=self.align)
                self._turn(builder, panel, lane, k)

            in_vectors(ctx, builder, panel.kc, o.lanes, fill)

    def _row(self, builder: ir.IRBuilder, row: ir.Value) -> ir.Value:
        at = builder.mul(row, i64(self.operand.lanes))
        return builder.gep(self.tile, [at], source_etype=self.operand.element)

    def _turn(self, builder: ir.IRBuilder, panel: Panel, lane: ir.Value, k: ir.Value) -> None:
        """The tile's columns become rows k, k+1, ... of the panel."""
        o, ctx = self.operand, self.ctx
        turn = turn_kernel(ctx.module, o.lanes, o.dtype)
        start = builder.add(builder.mul(k, i64(o.width)), lane)
        pointer = builder.gep(panel.target, [start], source_etype=o.element)
        builder.call(turn, [self.tile, pointer, i64(o.width)])
