"""Asking for memory before it is needed.

In: an operand's expression and a row of it. Out: prefetches of the row's lines into the second
cache; nothing for operands that are more than a load. No value depends on them.
"""

from __future__ import annotations

from llvmlite import ir

from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.ops import intrinsic
from rushlight.backends.llvm.values import Lanes, ValueEmitter
from rushlight.compiler.tile.ir import Axis
from rushlight.ir.scalar import E

LINE_BYTES = 64


def prefetch_row(
    ctx: KernelContext, builder: ir.IRBuilder, value: E, env: Env, features: Axis,
    columns: range | None = None,
) -> None:  # fmt: skip
    """The row at `env`, whose features (or some columns of them) lie side by side."""
    while value.op == "cast":
        value = value.args[0]
    width = features.extent
    if value.op != "load" or value.args or not isinstance(width, int):
        return
    columns = columns or range(0, width)
    line = max(1, LINE_BYTES // value.dtype.itemsize)
    for at in range(columns.start, min(columns.stop, width), line):
        emitter = ValueEmitter(ctx, builder, {**env, features.name: i64(at)}, Lanes(), {})
        place = emitter.pointer(*value.meta)
        # To read, for the second cache, data.
        kind = [ir.Constant(ir.IntType(32), n) for n in (0, 2, 1)]
        intrinsic(builder, "llvm.prefetch.p0", ir.VoidType(), [place, *kind])
