"""Tile registers (AMX): the instructions, emitted into a function, real or emulated.

Eight registers of 16 rows x 64 bytes. A product adds to C[16][16], of 32 bits each, the products of
A[16 rows][16 words] and B[16 words][16 columns]; a word is 2 bfloat16 or 4 int8, steps of k.

    C[m][n] += (sum over w of A[m][w].low * B[w][n].low) + (sum over w of .high * .high)

for bfloat16: two chains of fused multiply-adds from 0 over ascending words, then both additions;
subnormal operands and results are 0. That order is the instruction's own (Intel's manual), so it is
the canonical order of such sums on a machine that has it: blocks of 32 k, from k = 0 on.

The emulation is LLVM IR that is linked in (tile_emulated.py); its registers are memory of the
kernel's call, which functions hand on as `args`.
"""

from __future__ import annotations

from llvmlite import ir

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.context import I64, PTR, KernelContext
from rushlight.backends.llvm.ops import intrinsic
from rushlight.backends.llvm.tile_emulated import PREFIX, STATE_BYTES

I8 = ir.IntType(8)
VOID = ir.VoidType()
# Rows of a tile, and 32-bit words of a row.
SIDE = 16
ROW_BYTES = 64
# How many k a word holds, by the bytes of an element.
PRODUCTS = {"float32": ("tdpbf16ps", 2), "int32": ("tdpbssd", 4)}
# palette, start row, bytes of a row of each tile, rows of each tile.
CONFIG = bytes([1, *[0] * 15, *[ROW_BYTES, 0] * 8, *[0] * 16, *[SIDE] * 8, *[0] * 8])


class TileOps:
    """The instructions themselves. `args`: what a function that uses tiles gets beside its own."""

    args: tuple[ir.Value, ...] = ()

    def configure(self, b: ir.IRBuilder) -> None:
        """Before any other; all tiles are 0."""
        self._call(b, "ldtilecfg", _config(b.module))

    def release(self, b: ir.IRBuilder) -> None:
        """After the last: the kernel need not save the registers of a thread that has none."""
        self._call(b, "tilerelease")

    def zero(self, b: ir.IRBuilder, tile: int) -> None:
        self._call(b, "tilezero", tile)

    def load(self, b: ir.IRBuilder, tile: int, at: ir.Value, step: ir.Value) -> None:
        """step: bytes from one row to the next."""
        self._call(b, "tileloadd64", tile, at, step)

    def store(self, b: ir.IRBuilder, tile: int, at: ir.Value, step: ir.Value) -> None:
        self._call(b, "tilestored64", tile, at, step)

    def multiply(self, b: ir.IRBuilder, name: str, c: int, left: int, right: int) -> None:
        """c += left @ right; `name`: one of PRODUCTS."""
        self._call(b, name, c, left, right)

    def _call(self, b: ir.IRBuilder, name: str, *args: int | ir.Value) -> None:
        values = [ir.Constant(I8, a) if isinstance(a, int) else a for a in args]
        intrinsic(b, f"llvm.x86.{name}", VOID, values)


class EmulatedTiles(TileOps):
    """Calls of tile_emulated.py's functions. `state`: the registers."""

    def __init__(self, state: ir.Value) -> None:
        self.args = (state,)

    def _call(self, b: ir.IRBuilder, name: str, *args: int | ir.Value) -> None:
        values = [ir.Constant(I64, a) if isinstance(a, int) else a for a in args]
        intrinsic(b, f"{PREFIX}{name}", VOID, [*self.args, *values])


def arg_types(target: Target) -> list[ir.Type]:
    """Of TileOps.args."""
    return [PTR] if target.tiles == "emulated" else []


def ops_in(target: Target, args: list[ir.Value]) -> TileOps:
    """In a function that got `args`."""
    return EmulatedTiles(args[0]) if target.tiles == "emulated" else TileOps()


def ops_of_kernel(ctx: KernelContext) -> TileOps:
    """In a kernel function: where the registers of an emulation live."""
    if ctx.target.tiles == "emulated":
        return EmulatedTiles(ctx.stack_array(I8, STATE_BYTES))
    return TileOps()


def _config(module: ir.Module) -> ir.Value:
    known = module.globals.get("tile_config")
    if known is None:
        kind = ir.ArrayType(I8, len(CONFIG))
        known = ir.GlobalVariable(module, kind, "tile_config")
        known.initializer = ir.Constant(kind, bytearray(CONFIG))
        known.global_constant = True
        known.linkage = "internal"
        known.align = 64
    return known
