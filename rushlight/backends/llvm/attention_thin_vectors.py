"""What the emitter of an attention of few queries is made of: vectors in scratch, prefetches.

In: a kernel, an AttentionGrid, a number of lanes. Out: methods; addresses count in elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from rushlight.backends.llvm.access import free_names, is_read
from rushlight.backends.llvm.attention_sides import Layout
from rushlight.backends.llvm.context import Env, IndexEmitter, KernelContext, i64, value_type
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.ops import Op, constant, fused_multiply_add, intrinsic
from rushlight.backends.llvm.values import ValueEmitter, emit_value
from rushlight.compiler.tile.ir import AttentionGrid, Axis
from rushlight.ir.scalar import E, acc
from rushlight.ir.symint import Expr

Index = int | Expr
# Two blocks of AVX-512 lanes.
ROWS_AHEAD = 32


class ThinVectors:
    """The parts that do not know what is computed."""

    def __init__(self, ctx: KernelContext, grid: AttentionGrid, lanes: int) -> None:
        self.ctx, self.grid, self.lanes, self.dtype = ctx, grid, lanes, grid.acc_dtype
        self.element = value_type(self.dtype)
        self.vector = ir.VectorType(self.element, lanes)
        self.acc, self.size = acc(self.dtype), self.dtype.itemsize
        self.zero, self.lowest = (constant(self.vector, x) for x in (0.0, float("-inf")))
        self.layout = Layout(self.size)

    def _prefetch(
        self, builder: ir.IRBuilder, env: Env, value: E, features: Axis, key: ir.Value,
        columns: Sequence[ir.Value],
    ) -> None:  # fmt: skip
        """Ask for some columns of a row that comes soon, one line each: a few requests with each
        load keep memory busy, many at once hold everything up. Behind the last row lies what is
        read next, or nothing, for which one may ask."""
        while value.op == "cast":
            value = value.args[0]
        if value.op != "load" or value.args:
            return
        if is_read(value.meta[1], self.grid.s.name, free_names([value])):
            return
        following = IndexEmitter(self.ctx, builder, {}).op("add", key, i64(ROWS_AHEAD))
        for at in columns:
            here = {**env, self.grid.s.name: following, features.name: at}
            emitter = ValueEmitter(self.ctx, builder, here, Lanes(), {})
            buffer, offset = value.meta
            place = emitter.pointer(buffer, offset)
            args = [place, *(ir.Constant(ir.IntType(32), n) for n in (0, 2, 1))]
            intrinsic(builder, "llvm.prefetch.p0", ir.VoidType(), args)

    # ---- memory --------------------------------------------------------------------------

    def _fma(self, builder: ir.IRBuilder, *args: ir.Value) -> ir.Value:
        return fused_multiply_add(Op(builder, args, self.dtype, self.dtype, self.ctx.target))

    def _larger(self, builder: ir.IRBuilder, x: ir.Value, best: ir.Value) -> ir.Value:
        return builder.select(builder.fcmp_ordered(">", x, best), x, best)

    def _apply(self, builder: ir.IRBuilder, function: E, x: ir.Value) -> ir.Value:
        return emit_value(self.ctx, builder, function, {}, Lanes(self.lanes), {}, {self.acc: x})

    def _place(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.gep(base, [at], source_etype=self.element)

    def _load(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.load(self._place(builder, base, at), typ=self.vector, align=self.size)

    def _load_one(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.load(self._place(builder, base, at), typ=self.element, align=self.size)

    def _store(self, builder: ir.IRBuilder, value: ir.Value, base: ir.Value, at: ir.Value) -> None:
        builder.store(value, self._place(builder, base, at), align=self.size)

    def _local(self, builder: ir.IRBuilder, offset: Index) -> ir.Value:
        at = self.ctx.int_expr(builder, offset, {})
        return builder.gep(self.ctx.args.local, [at], source_etype=ir.IntType(8))
