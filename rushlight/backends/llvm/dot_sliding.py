"""Contractions whose b slides (DotGrid.slides), with fewer multiply-adds: see sliding.py.

`outputs` columns and `taps` steps of k become one each, of `points` products instead of
outputs * taps:

    for each panel of columns:   pack b into a panel for each point
        for each panel of rows:  a micro kernel for each point -> its tile of sums
            after the last step: the tiles are combined to the outputs' tile; epilogue and stores

Always true: a point's sum is made of chains over CHUNK steps, added in ascending order; so no
schedule changes a bit here either.
"""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from rushlight.backends.llvm.context import KernelContext, i64
from rushlight.backends.llvm.dot_frame import ALIGN, Block, DotFrame
from rushlight.backends.llvm.micro import MicroShape, micro_kernel
from rushlight.backends.llvm.pack import Operand, Panel, min_value
from rushlight.backends.llvm.pack_sliding import (
    SlidingOperand,
    SlidingPack,
    combine,
    put_together,
)
from rushlight.backends.llvm.schedule import DotSchedule
from rushlight.backends.llvm.sliding import CHUNK, transforms
from rushlight.compiler.tile.ir import Axis, DotGrid
from rushlight.ir.scalar import cast
from rushlight.ir.symint import floordiv


def inner_grid(grid: DotGrid) -> DotGrid:
    """The grid with its columns and steps of k counted in groups (only its axes are of use)."""
    assert grid.slides is not None
    outputs, taps = grid.slides
    n = Axis(grid.n.name, floordiv(grid.n.extent, outputs))
    return replace(grid, n=n, k=Axis(grid.k.name, floordiv(grid.k.extent, taps)))


class SlidingEmitter(DotFrame):
    """Code of one contraction whose b slides."""

    def __init__(self, ctx: KernelContext, grid: DotGrid, schedule: DotSchedule) -> None:
        assert grid.slides is not None
        outputs, taps = grid.slides
        super().__init__(ctx, grid, inner_grid(grid), schedule, outputs)
        s, dtype = schedule, grid.acc_dtype
        self.matrices = transforms(outputs, taps)
        self.points = len(self.matrices.x)
        row_step = s.row_step if s.along_k_a else None
        self.k_room = row_step or s.kc + s.lanes
        # Turned blocks are whole: what is behind the last k is room of the same part.
        whole = -(-s.kc // s.lanes) * s.lanes
        self.a_part, self.b_part = s.rows * self.k_room, (whole + 1) * s.columns
        whole_k, whole_n = self.one_step or s.kc % s.lanes == 0, s.nc % s.lanes == 0
        a, b = cast(grid.a, dtype), cast(grid.b, dtype)
        a_side = Operand(
            a, grid.m, grid.k, s.rows, s.lanes, s.along_k_a, dtype, row_step,
            s.along_k_a and whole_k,
        )  # fmt: skip
        b_side = Operand(
            b, grid.n, grid.k, s.columns, s.lanes, s.along_k_b, dtype, None,
            whole_k if s.along_k_b else whole_n,
        )  # fmt: skip
        m = self.matrices
        self.pack_a = SlidingPack(ctx, SlidingOperand(a_side, 1, taps, m.w, self.a_part, False))
        self.pack_b = SlidingPack(
            ctx, SlidingOperand(b_side, outputs, taps, m.x, self.b_part, True)
        )
        self.steps = (row_step, 1) if row_step else (1, s.rows)
        self.shape = MicroShape(s.rows, s.vectors, s.lanes, dtype, *self.steps, is_apart=True)
        self.micro = micro_kernel(ctx.module, self.shape, ctx.target)
        self.tile_size = s.rows * s.columns
        self.sums = ctx.stack_array(self.element, self.points * self.tile_size)
        self.tile = ctx.stack_array(self.element, outputs * self.tile_size)
        self._place()

    def _place(self) -> None:
        """Where an instance's panels of b and sums lie in its scratch, behind the panels of a."""
        s, size = self.schedule, self.grid.acc_dtype.itemsize

        def bytes_of(elements: int) -> int:
            return -(-elements * size // ALIGN) * ALIGN

        panels = -(-s.mc // s.rows)
        self.b_at = bytes_of(self.points * panels * self.a_part + self.pack_a.operand.slack)
        self.c_at = self.b_at + bytes_of(self.points * self.b_part + self.pack_b.operand.slack)
        tiles = panels * -(-s.nc // s.columns)
        held = 0 if self.one_step else bytes_of(self.points * tiles * self.tile_size)
        self.local_bytes = self.c_at + held

    def _step(self, builder: ir.IRBuilder, block: Block) -> None:
        ctx, s = self.ctx, self.schedule
        with ctx.for_range(builder, i64(0), block.m_here, s.rows) as m:
            left = builder.sub(block.m_here, m)
            first = builder.add(block.m0, m)
            target = self._panel_of_a(builder, m)
            panel = Panel(target, first, left, block.k0, block.kc)
            self.pack_a.emit(builder, panel, block.env)
        target = self._bytes(builder, ctx.args.local, self.b_at)
        with ctx.for_range(builder, i64(0), block.n_here, s.columns) as n:
            left = builder.sub(block.n_here, n)
            panel = Panel(target, builder.add(block.n0, n), left, block.k0, block.kc)
            self.pack_b.emit(builder, panel, block.env)
            with ctx.for_range(builder, i64(0), block.m_here, s.rows) as m:
                self._tile(builder, block, target, m, n)

    def _panel_of_a(self, builder: ir.IRBuilder, m: ir.Value) -> ir.Value:
        at = builder.mul(m, i64(self.points * self.k_room))
        return self._elements(builder, self.ctx.args.local, at)

    def _tile(
        self, builder: ir.IRBuilder, block: Block, b_panel: ir.Value, m: ir.Value, n: ir.Value
    ) -> None:
        """All products of one tile, and the epilogue when its sums are finished."""
        s, sums = self.schedule, self.sums
        if not self.one_step:
            held = self._bytes(builder, self.ctx.args.local, self.c_at)
            panels = -(-s.mc // s.rows)
            number = builder.add(
                builder.mul(builder.sdiv(n, i64(s.columns)), i64(panels)),
                builder.sdiv(m, i64(s.rows)),
            )
            at = builder.mul(number, i64(self.points * self.tile_size))
            sums = self._elements(builder, held, at)
        self._prefetch(builder, block, m, n)
        self._multiply(builder, block, self._panel_of_a(builder, m), b_panel, sums)
        if block.last is None:
            self._finish(builder, block, sums, m, n)
            return
        with builder.if_then(block.last):
            self._finish(builder, block, sums, m, n)

    def _multiply(
        self, builder: ir.IRBuilder, block: Block, a: ir.Value, b: ir.Value, sums: ir.Value
    ) -> None:
        ctx, s = self.ctx, self.schedule
        # Also of no steps there is a chain: it writes the zeros.
        is_some = builder.icmp_signed(">", block.kc, i64(0))
        steps = builder.select(is_some, block.kc, i64(1))
        with ctx.for_range(builder, i64(0), i64(self.points)) as point:
            a_part = self._elements(builder, a, builder.mul(point, i64(self.a_part)))
            b_part = self._elements(builder, b, builder.mul(point, i64(self.b_part)))
            tile = self._elements(builder, sums, builder.mul(point, i64(self.tile_size)))
            with ctx.for_range(builder, i64(0), steps, CHUNK) as k:
                count = min_value(builder, builder.sub(block.kc, k), i64(CHUNK))
                is_first = builder.and_(block.first, builder.icmp_signed("==", k, i64(0)))
                a_here = self._elements(builder, a_part, builder.mul(k, i64(self.steps[1])))
                b_here = self._elements(builder, b_part, builder.mul(k, i64(s.columns)))
                args = [a_here, b_here, i64(s.columns), count, tile, is_first]
                builder.call(self.micro, args)

    def _finish(
        self, builder: ir.IRBuilder, block: Block, sums: ir.Value, m: ir.Value, n: ir.Value
    ) -> None:
        """The points' sums become outputs."""
        s, size, dtype = self.schedule, self.grid.acc_dtype.itemsize, self.grid.acc_dtype
        rows = min_value(builder, builder.sub(block.m_here, m), i64(s.rows))
        vectors = builder.mul(rows, i64(s.vectors))
        with self.ctx.for_range(builder, i64(0), vectors) as number:
            at = builder.mul(number, i64(s.lanes))
            held = [
                builder.load(
                    self._elements(builder, sums, builder.add(at, i64(p * self.tile_size))),
                    typ=self.vector, align=size,
                )
                for p in range(self.points)
            ]  # fmt: skip
            made = [combine(builder, y, held, dtype, self.ctx.target) for y in self.matrices.y]
            start = builder.mul(at, i64(self.unit))
            for i, value in enumerate(put_together(builder, made, s.lanes)):
                place = builder.add(start, i64(i * s.lanes))
                builder.store(value, self._elements(builder, self.tile, place), align=size)
        self._epilogue(builder, block, self.tile, m, n)
