"""Packing for products whose operand slides (sliding.py): several transformed panels at once.

In: an operand as in pack.py, of which `group` elements along its vectors belong together (the taps
of a, the outputs or taps of b), and a matrix. Out: code that fills one panel for each row of the
matrix, `part` elements apart. Whole vectors are read and taken apart in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from llvmlite import ir

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.context import I32, Env, IndexEmitter, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.micro import turn_kernel
from rushlight.backends.llvm.ops import Op, constant, fused_multiply_add
from rushlight.backends.llvm.pack import Operand, Panel, in_vectors, lane_mask, min_value
from rushlight.backends.llvm.sliding import Matrix
from rushlight.backends.llvm.values import emit_value
from rushlight.base.dtypes import DType
from rushlight.compiler.tile.ir import Axis
from rushlight.compiler.tile.known import with_known
from rushlight.compiler.tile.transform import Substitution
from rushlight.ir.scalar import E
from rushlight.ir.symint import floordiv

Pick = tuple[int, int]


def pick_lanes(
    builder: ir.IRBuilder, vectors: Sequence[ir.Value], picks: Sequence[Pick]
) -> ir.Value:
    """A vector of the lanes (number of the vector, lane) of some vectors."""
    lanes = len(picks)
    kind = ir.VectorType(I32, lanes)
    first, *others = sorted({number for number, _ in picks})
    if not others:
        mask = ir.Constant(kind, [lane for _, lane in picks])
        return builder.shuffle_vector(vectors[first], vectors[first], mask)
    made = vectors[first]
    for number in others:
        mask = [
            lanes + lane if n == number else lane if number == others[0] and n == first else at
            for at, (n, lane) in enumerate(picks)
        ]
        made = builder.shuffle_vector(made, vectors[number], ir.Constant(kind, mask))
    return made


def take_apart(
    builder: ir.IRBuilder, vectors: Sequence[ir.Value], lanes: int, wanted: Sequence[int]
) -> list[ir.Value]:
    """Of vectors that follow each other: elements s, s + n, s + 2 n, ... for each s wanted."""
    n = len(vectors)
    return [
        pick_lanes(builder, vectors, [divmod(n * lane + s, lanes) for lane in range(lanes)])
        for s in wanted
    ]


def put_together(builder: ir.IRBuilder, vectors: Sequence[ir.Value], lanes: int) -> list[ir.Value]:
    """The inverse: vectors that follow each other."""
    n = len(vectors)
    places = [divmod(at, n) for at in range(n * lanes)]
    return [
        pick_lanes(builder, vectors, [(s, lane) for lane, s in places[i * lanes : (i + 1) * lanes]])
        for i in range(n)
    ]


def combine(
    builder: ir.IRBuilder, row: Sequence[Fraction], values: Sequence[ir.Value], dtype: DType,
    target: Target,
) -> ir.Value:  # fmt: skip
    """The sum of row[i] * values[i], by multiply-adds over ascending i."""
    terms = [(factor, value) for factor, value in zip(row, values, strict=True) if factor]
    factor, total = terms[0]
    if factor != 1:
        total = builder.fmul(total, constant(total.type, float(factor)))
    for factor, value in terms[1:]:
        args = (value, constant(value.type, float(factor)), total)
        total = fused_multiply_add(Op(builder, args, dtype, dtype, target))
    return total


@dataclass(frozen=True)
class SlidingOperand:
    """operand: in lanes and k of the panels; its value and axes are the contraction's.

    units, taps: elements of the lane's axis, and of k, in one of the panels.
    is_sliding: b, of which first and last elements of a unit (or tap) give all that is needed.
    """

    operand: Operand
    units: int
    taps: int
    matrix: Matrix
    part: int
    is_sliding: bool

    @property
    def group(self) -> int:
        """Elements along a vector that belong together."""
        return self.taps if self.operand.along_k else self.units

    @property
    def others(self) -> int:
        """The same across."""
        return self.units if self.operand.along_k else self.taps


class SlidingPack:
    """Code that fills the panels of one operand, one for each point."""

    def __init__(self, ctx: KernelContext, side: SlidingOperand) -> None:
        self.ctx, self.side, self.operand = ctx, side, side.operand
        o = side.operand
        self.is_turned = o.along_k and o.row_step is None
        self.values = self._across()
        count = len(side.matrix) * o.lanes * o.lanes
        self.tiles = ctx.stack_array(o.element, count) if self.is_turned else None

    def _across(self) -> list[E]:
        """The operand at elements 0, 1, ... of the groups across its vectors: divisions of the axis
        by their number become numbers."""
        o, count = self.operand, self.side.others
        axis = o.axis if o.along_k else o.k
        groups = Axis(axis.name, floordiv(axis.extent, count)).var
        steps = (Substitution({axis.name: count * groups + i}) for i in range(count))
        return [with_known(step.expr(o.value)) for step in steps]

    def emit(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        if self.operand.row_step is not None:
            self._rows(builder, panel, env)
        elif self.is_turned:
            self._turned(builder, panel, env)
        else:
            self._straight(builder, panel, env)

    def _values(
        self, builder: ir.IRBuilder, panel: Panel, env: Env, at: tuple[ir.Value, ir.Value],
        left: ir.Value | None,
    ) -> list[ir.Value]:  # fmt: skip
        """The transformed vectors from lane `first + at[0]` and k `k0 + at[1]` on, as counted in
        panels. left: how many of the vectors' elements are there, if not all."""
        side, target = self.side, self.ctx.target
        group, last = side.group, side.others - 1
        found = self._read(builder, panel, env, at, left, 0, range(group))
        if side.is_sliding:
            found += self._read(builder, panel, env, at, left, last, range(group - last, group))
        elif not self.operand.along_k:
            for tap in range(1, side.taps):
                found += self._read(builder, panel, env, at, left, tap, range(1))
        dtype = self.operand.dtype
        return [combine(builder, row, found, dtype, target) for row in side.matrix]

    def _read(
        self, builder: ir.IRBuilder, panel: Panel, env: Env, at: tuple[ir.Value, ir.Value],
        left: ir.Value | None, across: int, wanted: range,
    ) -> list[ir.Value]:  # fmt: skip
        """Elements `wanted` of each group, at element `across` of the groups across."""
        o, side, place = self.operand, self.side, IndexEmitter(self.ctx, builder, {})
        lane, k = place.op("add", panel.first, at[0]), place.op("add", panel.k0, at[1])
        (start, axis), (other, other_axis) = (lane, o.axis), (k, o.k)
        if o.along_k:
            start, axis, other, other_axis = other, other_axis, start, axis
        start = place.op("mul", start, i64(side.group))
        vectors = []
        for number in range(side.group):
            here, mask = place.op("add", start, i64(number * o.lanes)), None
            if left is not None:
                rest = builder.sub(left, i64(number * o.lanes))
                mask = lane_mask(builder, rest, o.lanes)
                # Where no lane is there, something that is there is read.
                here = builder.select(builder.icmp_signed(">", rest, i64(0)), here, start)
            inner = {**env, axis.name: here, other_axis.name: other}
            lanes = Lanes(o.lanes, axis, mask, o.aligned)
            vectors.append(emit_value(self.ctx, builder, self.values[across], inner, lanes, {}))
        return take_apart(builder, vectors, o.lanes, wanted)

    def _left(
        self, builder: ir.IRBuilder, count: ir.Value, at: ir.Value, mask: ir.Value | None
    ) -> ir.Value | None:
        """How many elements there are from `at` on, in a vector that is not whole."""
        if mask is None:
            return None
        return builder.mul(builder.sub(count, at), i64(self.side.group))

    def _put(
        self, builder: ir.IRBuilder, target: ir.Value, values: Sequence[ir.Value], at: ir.Value
    ) -> None:
        """One vector into each panel, at the same place; or into each tile."""
        o = self.operand
        part = o.lanes**2 if target is self.tiles else self.side.part
        for number, value in enumerate(values):
            here = builder.add(at, i64(number * part))
            pointer = builder.gep(target, [here], source_etype=o.element)
            builder.store(value, pointer, align=o.itemsize)

    @property
    def _zeros(self) -> list[ir.Value]:
        o = self.operand
        return [constant(ir.VectorType(o.element, o.lanes), 0)] * len(self.side.matrix)

    def _rows(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        """Each lane is a row of k, as in pack.py."""
        o, ctx = self.operand, self.ctx
        exist = min_value(builder, panel.left, i64(o.width))
        step = ctx.int_expr(builder, o.row_step, {})
        with ctx.for_range(builder, i64(0), exist) as row:

            def fill(k: ir.Value, mask: ir.Value | None) -> None:
                left = self._left(builder, panel.kc, k, mask)
                values = self._values(builder, panel, env, (row, k), left)
                self._put(builder, panel.target, values, builder.add(builder.mul(row, step), k))

            in_vectors(ctx, builder, panel.kc, o.lanes, fill)
        missing = ctx.for_range(builder, exist, i64(o.width))
        with missing as row, ctx.for_range(builder, i64(0), panel.kc, o.lanes) as k:
            self._put(builder, panel.target, self._zeros, builder.add(builder.mul(row, step), k))

    def _straight(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        o, ctx = self.operand, self.ctx
        exist = min_value(builder, panel.left, i64(o.width))

        def put(lane: ir.Value, mask: ir.Value | None) -> None:
            left = self._left(builder, exist, lane, mask)
            with ctx.for_range(builder, i64(0), panel.kc) as k:
                values = self._values(builder, panel, env, (lane, k), left)
                self._put(
                    builder, panel.target, values, builder.add(builder.mul(k, i64(o.width)), lane)
                )

        in_vectors(ctx, builder, exist, o.lanes, put)
        used = builder.sdiv(builder.add(exist, i64(o.lanes - 1)), i64(o.lanes))
        up = builder.mul(used, i64(o.lanes))
        missing = ctx.for_range(builder, up, i64(o.width), o.lanes)
        with missing as lane, ctx.for_range(builder, i64(0), panel.kc) as k:
            at = builder.add(builder.mul(k, i64(o.width)), lane)
            self._put(builder, panel.target, self._zeros, at)

    def _turned(self, builder: ir.IRBuilder, panel: Panel, env: Env) -> None:
        """Square blocks of vectors along k are turned, as in pack.py."""
        o, ctx = self.operand, self.ctx
        with ctx.for_range(builder, i64(0), i64(o.width), o.lanes) as lane:
            rows = min_value(builder, builder.sub(panel.left, lane), i64(o.lanes))
            rows = builder.select(builder.icmp_signed(">", rows, i64(0)), rows, i64(0))
            with ctx.for_range(builder, rows, i64(o.lanes)) as row:
                self._put(builder, self.tiles, self._zeros, builder.mul(row, i64(o.lanes)))

            def fill(k: ir.Value, mask: ir.Value | None, lane=lane, rows=rows) -> None:
                with ctx.for_range(builder, i64(0), rows) as row:
                    left = self._left(builder, panel.kc, k, mask)
                    values = self._values(builder, panel, env, (builder.add(lane, row), k), left)
                    self._put(builder, self.tiles, values, builder.mul(row, i64(o.lanes)))
                self._turn(builder, panel, builder.add(builder.mul(k, i64(o.width)), lane))

            in_vectors(ctx, builder, panel.kc, o.lanes, fill)

    def _turn(self, builder: ir.IRBuilder, panel: Panel, start: ir.Value) -> None:
        """The tiles' columns become rows of the panels, from `start` on."""
        o = self.operand
        turn = turn_kernel(self.ctx.module, o.lanes, o.dtype)
        for number in range(len(self.side.matrix)):
            at = builder.add(start, i64(number * self.side.part))
            pointer = builder.gep(panel.target, [at], source_etype=o.element)
            from_ = [i64(number * o.lanes**2)]
            tile = builder.gep(self.tiles, from_, source_etype=o.element)
            builder.call(turn, [tile, pointer, i64(o.width)])
