"""The inner kernel of a contraction in tile registers: C tile += A panel @ B panel.

In: A rows of packed words (16 of them, a block of k, side by side), a B panel [words][columns], and
a C tile [rows][columns] of 32-bit sums. Out: the C tile. Rows and words that do not exist are 0.
Always true: sums take whole blocks of words in ascending order, so a caller may cut k at multiples
of 16 words; nothing else changes a bit.

Up to 2 x 2 tiles of C stay in registers, with two of A and two of B: 4 loads for 4 products.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.context import I1, I8, I64, PTR
from rushlight.backends.llvm.tile_ops import PRODUCTS, ROW_BYTES, SIDE, TileOps, arg_types, ops_in
from rushlight.base.dtypes import DType

WORD = 4
# Registers: C tiles first.
LEFT, RIGHT = 4, 6


@dataclass(frozen=True)
class TileShape:
    """rows x columns sums of `dtype`, multiples of 16 and at most 32.

    row_step, block_step: words from one row of A, and from one block of k, to the next.
    """

    rows: int
    columns: int
    dtype: DType
    row_step: int
    block_step: int


def tile_kernel(module: ir.Module, shape: TileShape, target: Target) -> ir.Function:
    """void tiles(ptr a, ptr b, i64 step, i64 words, ptr c, i1 first, ...TileOps.args).

    step: words from one row of the B panel to the next. first: start from 0, not from C.
    """
    size = f"{shape.rows}x{shape.columns}_{shape.row_step}_{shape.block_step}"
    name = f"micro_tiles_{shape.dtype.name}_{size}"
    if name in module.globals:
        return module.globals[name]
    kinds = [PTR, PTR, I64, I64, PTR, I1, *arg_types(target)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    _emit(function, shape, ops_in(target, list(function.args[6:])))
    return function


def _emit(function: ir.Function, shape: TileShape, ops: TileOps) -> None:
    a, b, step, words, c, first = function.args[:6]
    entry, clear, again, start, loop, done = (
        function.append_basic_block(n) for n in ("entry", "clear", "again", "start", "loop", "done")
    )
    builder = ir.IRBuilder(entry)
    builder.cbranch(first, clear, again)
    sums = list(range(shape.rows // SIDE * (shape.columns // SIDE)))
    builder.position_at_end(clear)
    for tile in sums:
        ops.zero(builder, tile)
    builder.branch(start)
    builder.position_at_end(again)
    for tile in sums:
        ops.load(builder, tile, *_place(builder, c, tile, shape))
    builder.branch(start)

    builder.position_at_end(start)
    builder.cbranch(builder.icmp_signed(">", words, I64(0)), loop, done)
    builder.position_at_end(loop)
    left = builder.phi(I64)
    pa, pb = builder.phi(PTR), builder.phi(PTR)
    _block(builder, ops, shape, pa, pb, builder.mul(step, I64(WORD)))
    rest = builder.sub(left, I64(SIDE))
    next_a = builder.gep(pa, [I64(shape.block_step * WORD)], source_etype=I8)
    next_b = builder.gep(pb, [builder.mul(step, I64(SIDE * WORD))], source_etype=I8)
    for phi, begun, later in ((left, words, rest), (pa, a, next_a), (pb, b, next_b)):
        phi.add_incoming(begun, start)
        phi.add_incoming(later, loop)
    builder.cbranch(builder.icmp_signed(">", rest, I64(0)), loop, done)

    builder.position_at_end(done)
    for tile in sums:
        ops.store(builder, tile, *_place(builder, c, tile, shape))
    builder.ret_void()


def _place(
    builder: ir.IRBuilder, c: ir.Value, tile: int, shape: TileShape
) -> tuple[ir.Value, ir.Value]:
    """Where a tile of the sums lies, and the bytes from row to row."""
    row, column = divmod(tile, shape.columns // SIDE)
    offset = row * SIDE * shape.columns * WORD + column * ROW_BYTES
    at = builder.gep(c, [I64(offset)], source_etype=I8)
    return at, I64(shape.columns * WORD)


def _block(
    builder: ir.IRBuilder, ops: TileOps, shape: TileShape, a: ir.Value, b: ir.Value, step: ir.Value
) -> None:
    """16 words of k: every tile of the sums gets its product."""
    name, _ = PRODUCTS[shape.dtype.name]
    wide = shape.columns // SIDE
    for row in range(shape.rows // SIDE):
        offset = I64(row * SIDE * shape.row_step * WORD)
        at = builder.gep(a, [offset], source_etype=I8)
        ops.load(builder, LEFT + row, at, I64(shape.row_step * WORD))
        for column in range(wide):
            if row == 0:
                at = builder.gep(b, [I64(column * ROW_BYTES)], source_etype=I8)
                ops.load(builder, RIGHT + column, at, step)
            ops.multiply(builder, name, row * wide + column, LEFT + row, RIGHT + column)
