"""Packing: one panel of an operand of a contraction, evaluated into scratch as [k][width].

In: the operand's expression (a prologue: loads through views, casts, elementwise), where the panel
begins, how many of its lanes exist. Out: code that fills the panel; lanes that do not exist are 0.
Two ways, chosen by the schedule:
  straight  vectors lie along the lane axis (m or n) and are stored as they are
  along k   vectors lie along k; a square block is turned in registers
A panel narrower than a vector is stored in ascending k with overlap: what spills over the end of
one k is overwritten by the next, so scratch has one vector of slack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.micro import emit_transpose, zero_vector
from rushlight.compiler.tile.ir import Axis
from rushlight.ir.scalar import E

# (builder, expression, env, axis of the lanes, lanes) -> value
Evaluate = Callable[[ir.IRBuilder, E, Env, Axis, int], ir.Value]


@dataclass(frozen=True)
class Operand:
    """One side of a contraction: `width` lanes of `axis` per k, in vectors of `lanes`."""

    value: E
    axis: Axis
    k: Axis
    width: int
    lanes: int
    along_k: bool
    element: ir.Type
    itemsize: int


@dataclass(frozen=True)
class Panel:
    """Where one panel comes from and goes to: lanes first.. (`left` of them exist), k0.. (kc)."""

    target: ir.Value
    first: ir.Value
    left: ir.Value
    k0: ir.Value
    kc: ir.Value


class PackEmitter:
    def __init__(self, ctx: KernelContext, operand: Operand, evaluate: Evaluate) -> None:
        self.ctx, self.operand, self.evaluate = ctx, operand, evaluate
        o = operand
        self.align = o.lanes * o.itemsize
        self.tile = ctx.stack_array(o.element, o.lanes * o.lanes) if o.along_k else None

    def emit(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        if self.operand.along_k:
            self._along_k(builder, panel, env)
        else:
            self._straight(builder, panel, env)

    # ---- pieces --------------------------------------------------------------------------

    def _value(
        self, builder: ir.IRBuilder, panel: Panel, env: Env, lane: ir.Value, k: ir.Value, lanes: int
    ) -> ir.Value:
        """The operand at lane `first + lane` and `k0 + k`; `lanes` of them along its vector axis."""
        o = self.operand
        at_lane, at_k = builder.add(panel.first, lane), builder.add(panel.k0, k)
        inner = {**env, o.axis.name: at_lane, o.k.name: at_k}
        return self.evaluate(builder, o.value, inner, o.k if o.along_k else o.axis, lanes)

    def _store(
        self, builder: ir.IRBuilder, panel: Panel, value: ir.Value, lane: ir.Value, k: ir.Value
    ) -> None:
        o = self.operand
        at = builder.add(builder.mul(k, i64(o.width)), lane)
        pointer = builder.gep(panel.target, [at], source_etype=o.element)
        builder.store(value, pointer, align=o.itemsize)

    def _min(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        return builder.select(builder.icmp_signed("<", a, b), a, b)

    def _one_by_one(
        self,
        builder: ir.IRBuilder,
        panel: Panel,
        env: Env,
        lanes: tuple[ir.Value, ir.Value],
        ks: tuple[ir.Value, ir.Value],
    ) -> None:
        """The elements of lanes x ks, each for itself; those that do not exist are 0."""
        ctx, (lane_from, lane_to) = self.ctx, lanes
        exist = self._min(builder, lane_to, panel.left)
        zeros_from = builder.select(builder.icmp_signed(">", exist, lane_from), exist, lane_from)
        zero = ir.Constant(self.operand.element, 0)
        with ctx.for_range(builder, lane_from, exist) as lane, ctx.for_range(builder, *ks) as k:
            value = self._value(builder, panel, env, lane, k, 1)
            self._store(builder, panel, value, lane, k)
        with ctx.for_range(builder, zeros_from, lane_to) as lane, ctx.for_range(builder, *ks) as k:
            self._store(builder, panel, zero, lane, k)

    # ---- the two ways --------------------------------------------------------------------

    def _straight(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        o, ctx = self.operand, self.ctx
        vectors = -(-o.width // o.lanes)
        whole = builder.sdiv(panel.left, i64(o.lanes))
        whole = self._min(builder, whole, i64(vectors))
        whole_lanes = builder.mul(whole, i64(o.lanes))
        with ctx.for_range(builder, i64(0), whole_lanes, o.lanes) as lane:
            with ctx.for_range(builder, i64(0), panel.kc) as k:
                value = self._value(builder, panel, env, lane, k, o.lanes)
                self._store(builder, panel, value, lane, k)
        rest = (whole_lanes, i64(o.width))
        self._one_by_one(builder, panel, env, rest, (i64(0), panel.kc))

    def _along_k(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        o, ctx = self.operand, self.ctx
        whole = builder.mul(builder.sdiv(panel.kc, i64(o.lanes)), i64(o.lanes))
        with ctx.for_range(builder, i64(0), i64(o.width), o.lanes) as lane:
            left = builder.sub(panel.left, lane)
            rows = self._min(builder, left, i64(min(o.lanes, o.width)))
            with ctx.for_range(builder, rows, i64(o.lanes)) as row:
                builder.store(zero_vector(o.element, o.lanes), self._row(builder, row), align=self.align)
            with ctx.for_range(builder, i64(0), whole, o.lanes) as k:
                with ctx.for_range(builder, i64(0), rows) as row:
                    at = builder.add(lane, row)
                    value = self._value(builder, panel, env, at, k, o.lanes)
                    builder.store(value, self._row(builder, row), align=self.align)
                self._turn(builder, panel, lane, k)
        self._one_by_one(builder, panel, env, (i64(0), i64(o.width)), (whole, panel.kc))

    def _row(self, builder: ir.IRBuilder, row: ir.Value) -> ir.Value:
        at = builder.mul(row, i64(self.operand.lanes))
        return builder.gep(self.tile, [at], source_etype=self.operand.element)

    def _turn(self, builder: ir.IRBuilder, panel: Panel, lane: ir.Value, k: ir.Value) -> None:
        """The tile's columns become rows k, k+1, ... of the panel."""
        o = self.operand
        kind = ir.VectorType(o.element, o.lanes)
        rows = [
            builder.load(self._row(builder, i64(r)), typ=kind, align=self.align) for r in range(o.lanes)
        ]
        for number, column in enumerate(emit_transpose(builder, rows)):
            self._store(builder, panel, column, lane, builder.add(k, i64(number)))
