"""Contractions: a DotGrid becomes one kernel function and one micro kernel.

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
shared, and the work repeated is about 1 / (mc / 16) of an operand's multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from rushlight.backends.llvm.access import free_names, stride_along
from rushlight.backends.llvm.batch import fold_into_columns, fold_shared_batch
from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.context import I1, Env, KernelContext, i64
from rushlight.backends.llvm.dot_ahead import ahead_of_b, ahead_of_outputs
from rushlight.backends.llvm.dot_pairs import in_pairs, suits_pairs
from rushlight.backends.llvm.memory import CACHE_LINE, prefetch
from rushlight.backends.llvm.micro import MicroShape, micro_kernel
from rushlight.backends.llvm.orient import orient
from rushlight.backends.llvm.pack import Operand, PackEmitter, Panel, in_vectors, min_value
from rushlight.backends.llvm.puts import emit_stores
from rushlight.backends.llvm.schedule import (
    DotSchedule,
    ThinSchedule,
    choose_dot_schedule,
    choose_schedule,
    dot_grain,
    lanes_of,
)
from rushlight.backends.llvm.thin import emit_thin
from rushlight.backends.llvm.types import Launch, Scratch
from rushlight.backends.llvm.values import Lanes, ValueEmitter
from rushlight.base.dtypes import int32
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import Buffer, DotGrid, Program
from rushlight.ir.scalar import E, acc, cast
from rushlight.ir.symint import Expr, ceildiv, maximum, product
from rushlight.ir.symint_walk import variables

ALIGN = 64
FEW_ROWS = 4
# Panels that are packed in one sweep over k; those of b wait in the cache for their turn.
GROUP = 8
GROUP_B = 4


def lower_dot_grid(
    context: Callable[[str], KernelContext],
    program: Program,
    grid: DotGrid,
    caps: Caps,
    schedule: DotSchedule | ThinSchedule | None = None,
) -> tuple[list[Launch], list[Scratch]]:
    """The launch of a contraction; `schedule` overrides the chosen one (same bits)."""
    if grid.acc_dtype.kind == "bool" or grid.acc_dtype.compute is not grid.acc_dtype:
        raise TypeError(
            f"{program.name}: DotGrid.acc_dtype is {grid.acc_dtype.name}; allowed are float32, "
            "float64 and the integers"
        )
    ctx = context("")
    grid, chosen = plan_dot(grid, ctx.target, caps.threads)
    if isinstance(schedule, DotSchedule) and isinstance(chosen, DotSchedule):
        schedule = replace(schedule, pairs=chosen.pairs)
    schedule = schedule or chosen
    if isinstance(schedule, ThinSchedule):
        return [emit_thin(ctx, grid, schedule)], []
    emitter = DotEmitter(ctx, grid, schedule)
    emitter.emit()
    work = maximum(schedule.mc * schedule.nc * grid.k.extent // schedule.lanes, 1)
    count = product(emitter.extents)
    local, grain = emitter.layout.total, dot_grain(work)
    return [Launch(ctx.function.name, 0, count, local, grain, work)], []


def plan_dot(
    grid: DotGrid, target: Target, threads: int
) -> tuple[DotGrid, DotSchedule | ThinSchedule]:
    """The form of a contraction that is emitted, and its schedule."""
    lanes = lanes_of(grid.acc_dtype, target)
    grid = orient(fold_into_columns(fold_shared_batch(grid), lanes), lanes)
    schedule = choose_schedule(grid, target, threads)
    if isinstance(schedule, DotSchedule) and suits_pairs(grid, target):
        grid = in_pairs(grid)
        schedule = replace(choose_dot_schedule(grid, target, threads), pairs=True)
    return grid, schedule


@dataclass(frozen=True)
class Layout:
    """Byte offsets of the three parts of an instance's scratch, and their total."""

    b: int
    c: int
    total: int


@dataclass(frozen=True)
class Block:
    """What an instance works on in one step of k."""

    env: Env
    m0: ir.Value
    n0: ir.Value
    m_here: ir.Value
    n_here: ir.Value
    k0: ir.Value
    kc: ir.Value
    first: ir.Value
    last: ir.Value | None  # None: there is only one step


class DotEmitter:
    def __init__(self, ctx: KernelContext, grid: DotGrid, schedule: DotSchedule) -> None:
        self.ctx, self.grid, self.schedule = ctx, grid, schedule
        s, dtype = schedule, grid.acc_dtype
        row_step = s.row_step if s.along_k_a else 0
        # Panels of a a power of two apart would compete for cache lines.
        self.k_room = row_step or s.kc + s.lanes
        steps = (row_step, 1) if row_step else (1, s.rows)
        packed = int32 if s.pairs else dtype
        a, b = cast(grid.a, packed), cast(grid.b, packed)
        self.one_step = isinstance(grid.k.extent, int) and grid.k.extent <= s.kc
        whole_k = self.one_step or s.kc % s.lanes == 0
        whole_n = s.nc % s.lanes == 0
        self.a = Operand(
            a, grid.m, grid.k, s.rows, s.lanes, s.along_k_a, packed, row_step or None,
            s.along_k_a and whole_k,
        )  # fmt: skip
        self.b = Operand(
            b, grid.n, grid.k, s.columns, s.lanes, s.along_k_b, packed, None,
            whole_k if s.along_k_b else whole_n,
        )  # fmt: skip
        reads = _tile_reads(grid, s.lanes)
        self.outputs_ahead = ahead_of_outputs(grid, reads, s) if self.one_step else None
        self.b_ahead = None if reads else ahead_of_b(grid, self.b, s)
        asks = self.outputs_ahead is not None or self.b_ahead is not None
        self.shape = MicroShape(s.rows, s.vectors, s.lanes, dtype, *steps, asks, s.pairs)
        self.micro = micro_kernel(ctx.module, self.shape, ctx.target)
        # Sizes that are numbers get a fitting number of rows; others a second kernel for few rows.
        self.few: ir.Function | None = None
        if not isinstance(grid.m.extent, int) and s.rows > FEW_ROWS:
            few = replace(self.shape, rows=FEW_ROWS)
            self.few = micro_kernel(ctx.module, few, ctx.target)
        self.pack_a, self.pack_b = PackEmitter(ctx, self.a), PackEmitter(ctx, self.b)
        self.a_step, self.b_step = s.rows * self.k_room, (s.kc + 1) * s.columns
        is_grouped = self.pack_b.in_groups and self.b_ahead is None
        self.group_b = GROUP_B if is_grouped else 1
        self.layout = self._layout()
        blocks = (ceildiv(grid.m.extent, s.mc), ceildiv(grid.n.extent, s.nc))
        self.extents = [*(axis.extent for axis in grid.batch), *blocks]

    def _layout(self) -> Layout:
        s, size = self.schedule, self.grid.acc_dtype.itemsize

        def bytes_of(elements: int) -> int:
            return -(-elements * size // ALIGN) * ALIGN

        b = bytes_of(s.mc * self.k_room + self.a.slack)
        c = b + bytes_of(self.group_b * self.b_step + self.b.slack)
        return Layout(b, c, c if self.one_step else c + bytes_of(s.mc * s.nc))

    def emit(self) -> None:
        ctx, grid, s = self.ctx, self.grid, self.schedule
        self.tile = ctx.stack_array(self.shape.element, s.rows * s.columns)
        with ctx.instances(self.extents) as coordinates:
            builder = ctx.builder
            *batch, m_block, n_block = coordinates
            env = {axis.name: at for axis, at in zip(grid.batch, batch, strict=True)}
            m0, m_here = self._part(builder, m_block, grid.m.extent, s.mc)
            n0, n_here = self._part(builder, n_block, grid.n.extent, s.nc)
            where = (env, m0, n0, m_here, n_here)
            k = ctx.int_expr(builder, grid.k.extent, {})
            if self.one_step:
                self._step(builder, Block(*where, i64(0), k, I1(1), None))
                return
            turns = ctx.int_expr(builder, maximum(grid.k.extent, 1), {})
            with ctx.for_range(builder, i64(0), turns, s.kc) as k0:
                kc = min_value(builder, builder.sub(k, k0), i64(s.kc))
                first = builder.icmp_signed("==", k0, i64(0))
                last = builder.icmp_signed(">=", builder.add(k0, i64(s.kc)), k)
                self._step(builder, Block(*where, k0, kc, first, last))

    def _part(
        self, builder: ir.IRBuilder, number: ir.Value, extent: object, size: int
    ) -> tuple[ir.Value, ir.Value]:
        """(start, length) of block `number` of an axis."""
        start = builder.mul(number, i64(size))
        left = builder.sub(self.ctx.int_expr(builder, extent, {}), start)
        return start, min_value(builder, left, i64(size))

    def _step(self, builder: ir.IRBuilder, block: Block) -> None:
        """One step of k: all tiles of the block."""
        ctx, s = self.ctx, self.schedule
        first = i64(0)
        if self.pack_a.in_groups:
            at = self._panel_of_a(builder, block, first)
            first = self._pack_groups(builder, block, self.pack_a, at, block.m_here, self.a_step)
        with ctx.for_range(builder, first, block.m_here, s.rows) as m:
            self.pack_a.emit(builder, self._panel_of_a(builder, block, m), block.env)
        with ctx.for_range(builder, i64(0), block.n_here, s.columns * self.group_b) as n0:
            here = min_value(builder, builder.sub(block.n_here, n0), i64(s.columns * self.group_b))
            self._pack_b(builder, block, n0, here)
            with ctx.for_range(builder, i64(0), here, s.columns) as n:
                b_panel = self._panel_of_b(builder, block, n0, n).target
                with ctx.for_range(builder, i64(0), block.m_here, s.rows) as m:
                    self._tile(builder, block, b_panel, m, builder.add(n0, n))

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
        base = self._bytes(builder, self.ctx.args.local, self.layout.b)
        number = builder.sdiv(n, i64(self.schedule.columns))
        at = builder.add(n0, n)
        return Panel(
            self._elements(builder, base, builder.mul(number, i64(self.b_step))),
            builder.add(block.n0, at), builder.sub(block.n_here, at), block.k0, block.kc,
        )  # fmt: skip

    def _panel_of_a(self, builder: ir.IRBuilder, block: Block, m: ir.Value) -> Panel:
        target = self._elements(builder, self.ctx.args.local, builder.mul(m, i64(self.k_room)))
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
        a_panel = self._elements(builder, local, builder.mul(m, i64(self.k_room)))
        tile = self.tile
        if not self.one_step:
            c_block = self._bytes(builder, local, self.layout.c)
            at = builder.add(builder.mul(n, i64(s.mc)), builder.mul(m, i64(s.columns)))
            tile = self._elements(builder, c_block, at)
        if self.outputs_ahead is None:
            self._prefetch(builder, block, m, n)
        args = [a_panel, b_panel, i64(s.columns), block.kc, tile, block.first]
        args += self._ahead(builder, block, m, n)
        self._multiply(builder, args, builder.sub(block.m_here, m))
        if block.last is None:
            self._epilogue(builder, block, tile, m, n)
            return
        with builder.if_then(block.last):
            self._epilogue(builder, block, tile, m, n)

    def _ahead(
        self, builder: ir.IRBuilder, block: Block, m: ir.Value, n: ir.Value
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
        return self.b_ahead.walk(self.ctx, builder, block.env, at_n, k0, *share)

    def _prefetch(self, builder: ir.IRBuilder, block: Block, m: ir.Value, n: ir.Value) -> None:
        """Ask for what the epilogue will read per output: it comes while the sums are made."""
        ctx, grid, s = self.ctx, self.grid, self.schedule
        writes = _tile_writes(grid, s.lanes)
        touched = dict.fromkeys([*writes, *_tile_reads(grid, s.lanes)])
        if not touched:
            return
        rows = min_value(builder, builder.sub(block.m_here, m), i64(s.rows))
        m0, n0 = builder.add(block.m0, m), builder.add(block.n0, n)
        with ctx.for_range(builder, i64(0), rows) as row:
            env = {**block.env, grid.m.name: builder.add(m0, row), grid.n.name: n0}
            emitter = ValueEmitter(ctx, builder, env, Lanes(), {})
            for buffer, at in touched:
                first = emitter.pointer(buffer, at)
                for offset in range(0, s.columns * buffer.dtype.itemsize, CACHE_LINE):
                    prefetch(
                        builder,
                        self._bytes(builder, first, offset),
                        to_write=(buffer, at) in writes,
                    )

    def _multiply(self, builder: ir.IRBuilder, args: list[ir.Value], rows: ir.Value) -> None:
        if self.few is None:
            builder.call(self.micro, args)
            return
        few = builder.icmp_signed("<=", rows, i64(FEW_ROWS))
        with builder.if_else(few) as (then, otherwise):
            with then:
                builder.call(self.few, args)
            with otherwise:
                builder.call(self.micro, args)

    def _epilogue(
        self, builder: ir.IRBuilder, block: Block, tile: ir.Value, m: ir.Value, n: ir.Value
    ) -> None:
        """Evaluate and do the stores for the rows and columns of a tile that exist."""
        ctx, grid, s = self.ctx, self.grid, self.schedule
        rows = min_value(builder, builder.sub(block.m_here, m), i64(s.rows))
        columns = min_value(builder, builder.sub(block.n_here, n), i64(s.columns))
        m0, n0 = builder.add(block.m0, m), builder.add(block.n0, n)
        result = acc(grid.acc_dtype)
        with ctx.for_range(builder, i64(0), rows) as row:

            def finish(column: ir.Value, mask: ir.Value | None) -> None:
                at = builder.add(builder.mul(row, i64(s.columns)), column)
                pointer = self._elements(builder, tile, at)
                size = grid.acc_dtype.itemsize
                sums = builder.load(pointer, typ=self.shape.vector, align=size)
                env = {
                    **block.env,
                    grid.m.name: builder.add(m0, row),
                    grid.n.name: builder.add(n0, column),
                }
                lanes = Lanes(s.lanes, grid.n, mask, s.nc % s.lanes == 0)
                known = {result: sums}
                emit_stores(ctx, builder, grid.stores, env, lanes, known)

            in_vectors(ctx, builder, columns, s.lanes, finish)

    def _elements(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.gep(base, [at], source_etype=self.shape.element)

    def _bytes(self, builder: ir.IRBuilder, base: ir.Value, offset: int) -> ir.Value:
        return builder.gep(base, [i64(offset)], source_etype=ir.IntType(8))


Place = tuple[Buffer, Expr]


def _tile_reads(grid: DotGrid, lanes: int) -> list[Place]:
    """What the epilogue reads once per output, side by side along n: (buffer, index)."""
    names = free_names([store.value for store in grid.stores])
    loads = [node.meta for node in names if node.op == "load" and not node.args]
    return _in_rows(grid, loads, names, lanes)


def _tile_writes(grid: DotGrid, lanes: int) -> list[Place]:
    """What it writes so."""
    stores = [(store.dest, store.at) for store in grid.stores if isinstance(store.dest, Buffer)]
    return _in_rows(grid, stores, free_names([store.value for store in grid.stores]), lanes)


def _in_rows(
    grid: DotGrid, places: list[Place], names: dict[E, frozenset[str]], lanes: int
) -> list[Place]:
    return [
        (buffer, at)
        for buffer, at in dict.fromkeys(places)
        if stride_along(at, grid.n.name, names, lanes) == 1
        and stride_along(at, grid.m.name, names) != 0
        and all(var.kind != "value" for var in variables(at).values())
    ]
