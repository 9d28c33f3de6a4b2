"""The kernel function of a contraction: its packing, its micro kernels, its tiles.

An instance computes a block of mc x nc outputs of one batch element:

    for k0 in steps of kc:                     (one step when k is short)
        pack the a block, panels of `rows` rows                    -> L2
        for each panel of columns:                 (packed in groups where b lies along n)
            pack the b panel [kc][columns]                         -> L1 or L2
            for each panel of rows:
                micro kernel: C tile += a panel @ b panel          -> registers
                after the last step: epilogue, evaluated from the tile, then the stores

Always true: the sum of an output is one chain over ascending k. Between steps of k it lies in the
C block exactly, so the schedule never changes a bit. Packing is inside the instance: nothing is
shared, and the work repeated is about 1 / (mc / 16) of an operand's multiply-adds. Panels of an
operand that does not change may stay from a run to the next (kept.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from llvmlite import ir

from rushlight.backends.llvm.context import I1, KernelContext, i64
from rushlight.backends.llvm.dot_ahead import (
    AheadOfB,
    AheadOfOutputs,
    ahead_of_b,
    ahead_of_outputs,
    walk_through,
)
from rushlight.backends.llvm.dot_frame import ALIGN, Block, DotFrame, tile_reads
from rushlight.backends.llvm.kept import KeptPanels, keep_of, plan_panels
from rushlight.backends.llvm.micro import MicroShape, micro_kernel
from rushlight.backends.llvm.pack import Operand, PackEmitter, Panel, min_value
from rushlight.backends.llvm.schedule import DotSchedule
from rushlight.base.dtypes import int32
from rushlight.compiler.tile.ir import DotGrid
from rushlight.ir.scalar import cast
from rushlight.runtime.packed import Keep

FEW_ROWS = 4
# Panels that are packed in one sweep over k; those of b wait in the cache for their turn.
GROUP = 8
GROUP_B = 4


@contextmanager
def _unless(builder: ir.IRBuilder, kept: KeptPanels | None) -> Iterator[None]:
    """Code for a run that has no panels yet."""
    if kept is None:
        yield
        return
    with builder.if_then(builder.not_(kept.ready)):
        yield


@dataclass(frozen=True)
class Layout:
    """Byte offsets of the three parts of an instance's scratch, and their total."""

    b: int
    c: int
    total: int


class DotEmitter(DotFrame):
    def __init__(self, ctx: KernelContext, grid: DotGrid, schedule: DotSchedule) -> None:
        super().__init__(ctx, grid, grid, schedule, 1)
        s = schedule
        self.packed = int32 if s.words or s.tiles else grid.acc_dtype
        self.whole_k = self.one_step or s.kc % s.lanes == 0
        # Panels of a a power of two apart would compete for cache lines.
        self.k_room = s.row_step if s.along_k_a else s.kc + s.lanes
        self.a, self.b = self._operand_a(), self._operand_b()
        self.outputs_ahead: AheadOfOutputs | None = None
        self.b_ahead: AheadOfB | None = None
        self.few_rows = FEW_ROWS
        self.few: ir.Function | None = None
        self._make_kernels()
        self.pack_a, self.pack_b = PackEmitter(ctx, self.a), PackEmitter(ctx, self.b)
        # Turned blocks are whole: what is behind the last k is room of the same panel.
        whole = -(-s.kc // s.lanes) * s.lanes
        self.a_step, self.b_step = s.rows * self.k_room, (whole + 1) * s.columns
        is_grouped = self.pack_b.in_groups and self.b_ahead is None
        self.group_b = GROUP_B if is_grouped else 1
        self.layout = self._layout()
        self.local_bytes = self.layout.total
        self.tile = ctx.stack_array(self.element, s.rows * s.columns)
        self.keeps: list[Keep] = []
        self.kept_a = self._kept(self.a, self.a_step) if self.keeps_a else None
        self.kept_b = self._kept(self.b, self.b_step)

    @property
    def keeps_a(self) -> bool:
        """Are the panels of a such that they can stay?"""
        return True

    def _kept(self, operand: Operand, step: int) -> KeptPanels | None:
        program = self.ctx.program
        if len(program.grids) > 1:
            return None
        plan = plan_panels(self.grid, operand, step, self.schedule.kc, operand.slack)
        if plan is None:
            return None
        number = len(program.buffers) + len(self.keeps)
        self.keeps.append(keep_of(program, plan))
        return KeptPanels(self.ctx, plan, number)

    def _operand_a(self) -> Operand:
        s, grid = self.schedule, self.grid
        return Operand(
            cast(grid.a, self.packed), grid.m, grid.k, s.rows, s.lanes, s.along_k_a, self.packed,
            self.k_room if s.along_k_a else None, s.along_k_a and self.whole_k,
        )  # fmt: skip

    def _operand_b(self) -> Operand:
        s, grid = self.schedule, self.grid
        aligned = self.whole_k if s.along_k_b else s.nc % s.lanes == 0
        return Operand(
            cast(grid.b, self.packed), grid.n, grid.k, s.columns, s.lanes, s.along_k_b,
            self.packed, None, aligned,
        )  # fmt: skip

    def _make_kernels(self) -> None:
        """The micro kernel, what it asks for ahead, and another one for few rows."""
        ctx, grid, s = self.ctx, self.grid, self.schedule
        reads = tile_reads(grid, s.lanes)
        self.outputs_ahead = ahead_of_outputs(grid, reads, s) if self.one_step else None
        self.b_ahead = None if reads else ahead_of_b(grid, self.b, s)
        asks = self.outputs_ahead is not None or self.b_ahead is not None
        steps = (self.k_room, 1) if s.along_k_a else (1, s.rows)
        shape = MicroShape(s.rows, s.vectors, s.lanes, grid.acc_dtype, *steps, asks, s.words)
        self.micro = micro_kernel(ctx.module, shape, ctx.target)
        # Sizes that are numbers get a fitting number of rows; others a second kernel for few rows.
        if not isinstance(grid.m.extent, int) and s.rows > FEW_ROWS:
            self.few = micro_kernel(ctx.module, replace(shape, rows=FEW_ROWS), ctx.target)

    def _a_elements(self) -> int:
        """Of the packed block of a."""
        return self.schedule.mc * self.k_room + self.a.slack

    def _layout(self) -> Layout:
        s, size = self.schedule, self.grid.acc_dtype.itemsize

        def bytes_of(elements: int) -> int:
            return -(-elements * size // ALIGN) * ALIGN

        b = bytes_of(self._a_elements())
        c = b + bytes_of(self.group_b * self.b_step + self.b.slack)
        return Layout(b, c, c if self.one_step else c + bytes_of(s.mc * s.nc))

    def _step(self, builder: ir.IRBuilder, block: Block) -> None:
        """One step of k: all tiles of the block."""
        ctx, s = self.ctx, self.schedule
        self._find_panels(builder, block)
        with _unless(builder, self.kept_a):
            self._pack_a(builder, block)
        with ctx.for_range(builder, i64(0), block.n_here, s.columns * self.group_b) as n0:
            here = min_value(builder, builder.sub(block.n_here, n0), i64(s.columns * self.group_b))
            with _unless(builder, self.kept_b):
                self._pack_b(builder, block, n0, here)
            with ctx.for_range(builder, i64(0), here, s.columns) as n:
                b_panel = self._panel_of_b(builder, block, n0, n).target
                with ctx.for_range(builder, i64(0), block.m_here, s.rows) as m:
                    self._tile(builder, block, b_panel, m, builder.add(n0, n))

    def _find_panels(self, builder: ir.IRBuilder, block: Block) -> None:
        """Where the panels of this block are: in scratch, or kept from a run to the next."""
        local = self.ctx.args.local
        self.at_a, self.at_b = local, self._bytes(builder, local, self.layout.b)
        self.b_stays: ir.Value | None = None
        if self.kept_a is not None:
            first = builder.icmp_signed("==", block.n0, i64(0))
            at = self.kept_a.panel(builder, block.env, block.k0, block.m0, self.element)
            self.at_a = builder.select(self.kept_a.is_used(builder, first), at, self.at_a)
        if self.kept_b is not None:
            first = builder.icmp_signed("==", block.m0, i64(0))
            at = self.kept_b.panel(builder, block.env, block.k0, block.n0, self.element)
            self.b_stays = self.kept_b.is_used(builder, first)
            self.at_b = builder.select(self.b_stays, at, self.at_b)

    def _pack_a(self, builder: ir.IRBuilder, block: Block) -> None:
        first = i64(0)
        if self.pack_a.in_groups:
            at = self._panel_of_a(builder, block, first)
            first = self._pack_groups(builder, block, self.pack_a, at, block.m_here, self.a_step)
        with self.ctx.for_range(builder, first, block.m_here, self.schedule.rows) as m:
            self.pack_a.emit(builder, self._panel_of_a(builder, block, m), block.env)

    def _pack_b(self, builder: ir.IRBuilder, block: Block, n0: ir.Value, here: ir.Value) -> None:
        """Pack the `here` columns from n0 on: one panel, or a group of them."""
        first = i64(0)
        if self.group_b > 1:
            at = self._panel_of_b(builder, block, n0, first)
            first = self._pack_groups(builder, block, self.pack_b, at, here, self.b_step)
        with self.ctx.for_range(builder, first, here, self.schedule.columns) as n:
            self.pack_b.emit(builder, self._panel_of_b(builder, block, n0, n), block.env)

    def _panel_of_b(self, builder: ir.IRBuilder, block: Block, n0: ir.Value, n: ir.Value) -> Panel:
        """The panel of column n of the group that begins at n0."""
        at = builder.add(n0, n)
        # Kept panels follow each other through the block, those in scratch through a group.
        inside = n if self.b_stays is None else builder.select(self.b_stays, at, n)
        number = builder.sdiv(inside, i64(self.schedule.columns))
        return Panel(
            self._elements(builder, self.at_b, builder.mul(number, i64(self.b_step))),
            builder.add(block.n0, at), builder.sub(block.n_here, at), block.k0, block.kc,
        )  # fmt: skip

    def _panel_of_a(self, builder: ir.IRBuilder, block: Block, m: ir.Value) -> Panel:
        target = self._elements(builder, self.at_a, builder.mul(m, i64(self.k_room)))
        left = builder.sub(block.m_here, m)
        return Panel(target, builder.add(block.m0, m), left, block.k0, block.kc)

    def _pack_groups(
        self, builder: ir.IRBuilder, block: Block, pack: PackEmitter, at: Panel,
        count: ir.Value, step: int,
    ) -> ir.Value:  # fmt: skip
        """Pack the whole panels of `count` lanes, GROUP at a time; return the first lane left."""
        width = i64(pack.operand.width)
        whole = pack.whole_panels(builder, count)
        with self.ctx.for_range(builder, i64(0), whole, GROUP) as number:
            some = min_value(builder, builder.sub(whole, number), i64(GROUP))
            target = self._elements(builder, at.target, builder.mul(number, i64(step)))
            first = builder.add(at.first, builder.mul(number, width))
            pack.emit_group(
                builder, replace(at, target=target, first=first), block.env, some, i64(step)
            )
        return builder.mul(whole, width)

    def _tile(
        self, builder: ir.IRBuilder, block: Block, b_panel: ir.Value, m: ir.Value, n: ir.Value
    ) -> None:
        """One call of the micro kernel, and the epilogue when the sums are finished."""
        s, local = self.schedule, self.ctx.args.local
        a_panel = self._elements(builder, self.at_a, builder.mul(m, i64(self.k_room)))
        tile = self.tile
        if not self.one_step:
            c_block = self._bytes(builder, local, self.layout.c)
            at = builder.add(builder.mul(n, i64(s.mc)), builder.mul(m, i64(s.columns)))
            tile = self._elements(builder, c_block, at)
        if self.outputs_ahead is None:  # once: before the sums are finished
            with builder.if_then(I1(1) if block.last is None else block.last):
                self._prefetch(builder, block, m, n)
        args = [a_panel, b_panel, i64(s.columns), block.kc, tile, block.first]
        args += self._ahead(builder, block, m, n, b_panel)
        self._multiply(builder, args, builder.sub(block.m_here, m))
        if block.last is None:
            self._epilogue(builder, block, tile, m, n)
            return
        with builder.if_then(block.last):
            self._epilogue(builder, block, tile, m, n)

    def _ahead(
        self, builder: ir.IRBuilder, block: Block, m: ir.Value, n: ir.Value, b_panel: ir.Value
    ) -> Sequence[ir.Value]:
        """What a call of the micro kernel asks for: see dot_ahead.py."""
        s = self.schedule
        next_n = builder.add(n, i64(s.columns))
        if self.outputs_ahead is not None:
            next_m = builder.add(m, i64(s.rows))
            here = builder.icmp_signed("<", next_m, block.m_here)
            at_m = builder.add(block.m0, builder.select(here, next_m, i64(0)))
            at_n = builder.add(block.n0, builder.select(here, n, next_n))
            return self.outputs_ahead.walk(self.ctx, builder, block.env, at_m, at_n)
        if self.b_ahead is None:
            return ()
        here = builder.icmp_signed("<", next_n, block.n_here)
        at_n = builder.add(block.n0, builder.select(here, next_n, i64(0)))
        k0 = builder.select(here, block.k0, builder.add(block.k0, block.kc))
        tiles = builder.udiv(builder.add(block.m_here, i64(s.rows - 1)), i64(s.rows))
        share = (builder.udiv(m, i64(s.rows)), tiles)
        walk = self.b_ahead.walk(self.ctx, builder, block.env, at_n, k0, *share)
        if self.kept_b is None:
            return walk
        following = self._elements(builder, b_panel, i64(self.b_step))
        kept = walk_through(builder, following, self.b_step * self.b.itemsize, *share)
        return [builder.select(self.kept_b.ready, a, b) for a, b in zip(kept, walk, strict=True)]

    def _multiply(self, builder: ir.IRBuilder, args: list[ir.Value], rows: ir.Value) -> None:
        if self.few is None:
            builder.call(self.micro, args)
            return
        few = builder.icmp_signed("<=", rows, i64(self.few_rows))
        with builder.if_else(few) as (then, otherwise):
            with then:
                builder.call(self.few, args)
            with otherwise:
                builder.call(self.micro, args)
