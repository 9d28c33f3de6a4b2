"""The object code of tiles_check.py: one product by the micro kernel that contractions use."""

from __future__ import annotations

from llvmlite import ir

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.context import I1, I8, I64, PTR
from rushlight.backends.llvm.jit import compile_text
from rushlight.backends.llvm.micro_tiles import TileShape, tile_kernel
from rushlight.backends.llvm.tile_emulated import STATE_BYTES
from rushlight.backends.llvm.tile_ops import SIDE, EmulatedTiles, TileOps
from rushlight.backends.llvm.tiles_check import SHAPE, SYMBOL, WORDS
from rushlight.base.dtypes import DType


def object_of(dtype: DType, target: Target) -> bytes:
    """void SYMBOL(ptr a, ptr b, ptr sums): a SHAPE product of WORDS packed words."""
    module = ir.Module("tiles", context=ir.Context())
    kernel = tile_kernel(module, TileShape(*SHAPE, dtype, WORDS, SIDE), target)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR] * 3), SYMBOL)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    ops = TileOps()
    if target.tiles == "emulated":
        state = builder.alloca(ir.ArrayType(I8, STATE_BYTES))
        state.align, state.type = 64, PTR
        ops = EmulatedTiles(state)
    left, right, sums = function.args
    ops.configure(builder)
    sizes = I64(SHAPE[1]), I64(WORDS)
    builder.call(kernel, [left, right, *sizes, sums, I1(1), *ops.args])
    ops.release(builder)
    builder.ret_void()
    return compile_text(str(module), target)
