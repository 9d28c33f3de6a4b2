"""Contractions in tile registers (AMX): bfloat16 summed in float32, int8 summed in int32.

The frame of dot_emit.py with elements in words (`in_words`: 2 bfloat16 or 4 int8) and blocks of 16
words. B panels are those of dot_words.py, [words][columns]. A lies in rows: along k they are packed
as ever; where it lies along m, blocks are turned, and a strip [rows][16 words] follows another.
Words behind the last k are 0 on both sides, rows and columns that do not exist are anything.

Always true: an output is the sum of blocks of 32 k (64 of int8) in ascending order from k = 0 on,
each added as tile_ops.py says. Registers are configured when a kernel begins, released at its end.
"""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.context import i64
from rushlight.backends.llvm.dot_emit import DotEmitter
from rushlight.backends.llvm.dot_frame import Block
from rushlight.backends.llvm.dot_words import is_bfloat16, is_int8
from rushlight.backends.llvm.micro_tiles import TileShape, tile_kernel
from rushlight.backends.llvm.ops import constant
from rushlight.backends.llvm.pack import Operand, Panel
from rushlight.backends.llvm.schedule import DotSchedule, choose_dot_schedule
from rushlight.backends.llvm.tile_ops import PRODUCTS, SIDE, ops_of_kernel
from rushlight.base.dtypes import int32
from rushlight.compiler.tile.ir import DotGrid
from rushlight.ir.scalar import cast


def suits_tiles(grid: DotGrid, target: Target) -> bool:
    """Of every size: whether an output is summed so must not depend on its neighbours."""
    return bool(target.tiles) and (is_bfloat16(grid) or is_int8(grid))


def sums_in_blocks(grid: DotGrid, target: Target) -> bool:
    """Must a kernel without tiles take their order of sums? That of integers does not matter."""
    return suits_tiles(grid, target) and grid.acc_dtype.is_floating_point


def words_of(grid: DotGrid) -> int:
    """Elements of a word."""
    return PRODUCTS[grid.acc_dtype.name][1]


def choose_tile_schedule(grid: DotGrid, target: Target, threads: int) -> DotSchedule:
    """Of a grid of words."""
    m, n = grid.m.extent, grid.n.extent
    rows = SIDE if isinstance(m, int) and m <= SIDE else 2 * SIDE
    vectors = 1 if isinstance(n, int) and n <= SIDE else 2
    found = choose_dot_schedule(grid, target, threads, (rows, vectors))
    return replace(found, kc=-(-found.kc // SIDE) * SIDE, tiles=True)


class TileEmitter(DotEmitter):
    def emit(self) -> None:
        """The registers belong to this call of the kernel."""
        self.ops.configure(self.ctx.builder)
        super().emit()
        builder = self.ctx.builder
        builder.position_before(builder.block.terminator)
        self.ops.release(builder)

    def _operand_a(self) -> Operand:
        s, grid = self.schedule, self.grid
        if s.along_k_a:
            return replace(super()._operand_a(), zero_tail=True)
        self.k_room = SIDE
        value, whole_m = cast(grid.a, int32), s.mc % s.lanes == 0
        return Operand(value, grid.k, grid.m, SIDE, SIDE, True, int32, None, whole_m)

    @property
    def keeps_a(self) -> bool:
        return self.schedule.along_k_a  # else strips go through all rows of a block

    def _make_kernels(self) -> None:
        ctx, s = self.ctx, self.schedule
        self.ops = ops_of_kernel(ctx)
        # Room for the whole blocks of the last step.
        self.strip = s.mc * SIDE
        block_step = SIDE if s.along_k_a else self.strip
        shape = TileShape(s.rows, s.columns, self.grid.acc_dtype, self.k_room, block_step)
        self.micro = tile_kernel(ctx.module, shape, ctx.target)
        self.few_rows, m = SIDE, self.grid.m.extent
        some_are_few = not isinstance(m, int) or 0 < m % s.rows <= SIDE
        if s.rows > SIDE and some_are_few:
            self.few = tile_kernel(ctx.module, replace(shape, rows=SIDE), ctx.target)

    def _a_elements(self) -> int:
        s = self.schedule
        count = s.mc * self.k_room if s.along_k_a else self.strip * (s.kc // SIDE)
        return count + self.a.slack

    def _pack_a(self, builder: ir.IRBuilder, block: Block) -> None:
        if self.schedule.along_k_a:
            super()._pack_a(builder, block)
            return
        with self.ctx.for_range(builder, i64(0), block.kc, SIDE) as word:
            offset = builder.mul(word, i64(self.strip // SIDE))
            target = self._elements(builder, self.ctx.args.local, offset)
            first, left = builder.add(block.k0, word), builder.sub(block.kc, word)
            panel = Panel(target, first, left, block.m0, block.m_here)
            self.pack_a.emit(builder, panel, block.env)

    def _pack_b(self, builder: ir.IRBuilder, block: Block, n0: ir.Value, here: ir.Value) -> None:
        super()._pack_b(builder, block, n0, here)
        k, s = self.grid.k.extent, self.schedule
        if isinstance(k, int) and k % SIDE == 0:
            return
        ctx, zero = self.ctx, constant(ir.VectorType(ir.IntType(32), s.lanes), 0)
        end = builder.mul(builder.sdiv(builder.add(block.kc, i64(SIDE - 1)), i64(SIDE)), i64(SIDE))
        with ctx.for_range(builder, i64(0), here, s.columns) as n:
            panel = self._panel_of_b(builder, block, n0, n).target
            with ctx.for_range(builder, block.kc, end) as word:
                for lane in range(0, s.columns, s.lanes):
                    at = builder.add(builder.mul(word, i64(s.columns)), i64(lane))
                    builder.store(zero, self._elements(builder, panel, at), align=4)

    def _multiply(self, builder: ir.IRBuilder, args: list[ir.Value], rows: ir.Value) -> None:
        super()._multiply(builder, [*args, *self.ops.args], rows)
