"""The frame of a contraction's kernel: instances, steps of k, the epilogue of a tile.

In: a contraction and its schedule. An instance is a block of mc x nc outputs of one batch element;
`DotFrame.emit` calls `_step` for each step of k of it, which packs and multiplies (dot.py and
dot_sliding.py) and hands finished tiles to `_epilogue`.

Always true: between steps of k the sums lie in the C block exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from rushlight.backends.llvm.access import free_names, stride_along
from rushlight.backends.llvm.context import I1, Env, KernelContext, i64, value_type
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.memory import CACHE_LINE, prefetch
from rushlight.backends.llvm.pack import in_vectors, min_value
from rushlight.backends.llvm.puts import emit_stores
from rushlight.backends.llvm.schedule import DotSchedule
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import Buffer, DotGrid
from rushlight.ir.scalar import E, acc
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import ceildiv, maximum
from rushlight.ir.symint_walk import variables

ALIGN = 64
Size = int | Expr


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


class DotFrame:
    """`inner`: the grid in whose axes blocks are counted; a column of it is `unit` of `grid`'s."""

    def __init__(
        self, ctx: KernelContext, grid: DotGrid, inner: DotGrid, schedule: DotSchedule, unit: int
    ) -> None:
        self.ctx, self.grid, self.inner, self.schedule = ctx, grid, inner, schedule
        s, k = schedule, inner.k.extent
        self.unit, self.width = unit, unit * s.columns
        self.element = value_type(grid.acc_dtype)
        self.vector = ir.VectorType(self.element, s.lanes)
        self.one_step = isinstance(k, int) and k <= s.kc
        assert s.mc % s.rows == s.nc % s.columns == 0, s
        self.blocks = s.blocks(inner.m.extent, inner.n.extent)
        self.extents = [*(axis.extent for axis in inner.batch), *self.blocks]

    def _step(self, builder: ir.IRBuilder, block: Block) -> None:
        """One step of k: all tiles of the block."""
        raise NotImplementedError

    def emit(self) -> None:
        ctx, grid, s = self.ctx, self.inner, self.schedule
        with ctx.instances(self.extents) as coordinates:
            builder = ctx.builder
            *batch, m_block, n_block = coordinates
            env = {axis.name: at for axis, at in zip(grid.batch, batch, strict=True)}
            m0, m_here = self._part(builder, m_block, grid.m.extent, self.blocks[0], s.rows)
            n0, n_here = self._part(builder, n_block, grid.n.extent, self.blocks[1], s.columns)
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
        self, builder: ir.IRBuilder, number: ir.Value, extent: Size, blocks: Size, unit: int
    ) -> tuple[ir.Value, ir.Value]:
        """(start, length) of block `number` of an axis: whole units, as evenly as can be."""
        at = self.ctx.int_expr(builder, extent, {})
        units = self.ctx.int_expr(builder, ceildiv(extent, unit), {})
        count = self.ctx.int_expr(builder, blocks, {})
        ends = (builder.mul(n, units) for n in (number, builder.add(number, i64(1))))
        start, end = (builder.mul(builder.udiv(n, count), i64(unit)) for n in ends)
        return start, builder.sub(min_value(builder, end, at), start)

    def _prefetch(self, builder: ir.IRBuilder, block: Block, m: ir.Value, n: ir.Value) -> None:
        """Ask for what the epilogue will read per output: it comes while the sums are made."""
        ctx, grid, s = self.ctx, self.grid, self.schedule
        writes = tile_writes(grid, s.lanes)
        touched = dict.fromkeys([*writes, *tile_reads(grid, s.lanes)])
        if not touched:
            return
        rows = min_value(builder, builder.sub(block.m_here, m), i64(s.rows))
        m0, n0 = builder.add(block.m0, m), self._columns(builder, builder.add(block.n0, n))
        with ctx.for_range(builder, i64(0), rows) as row:
            env = {**block.env, grid.m.name: builder.add(m0, row), grid.n.name: n0}
            emitter = ValueEmitter(ctx, builder, env, Lanes(), {})
            for buffer, at in touched:
                first = emitter.pointer(buffer, at)
                for offset in range(0, self.width * buffer.dtype.itemsize, CACHE_LINE):
                    prefetch(
                        builder,
                        self._bytes(builder, first, offset),
                        to_write=(buffer, at) in writes,
                    )

    def _epilogue(
        self, builder: ir.IRBuilder, block: Block, tile: ir.Value, m: ir.Value, n: ir.Value
    ) -> None:
        """Evaluate and do the stores for the rows and columns of a tile that exist."""
        ctx, grid, s = self.ctx, self.grid, self.schedule
        rows = min_value(builder, builder.sub(block.m_here, m), i64(s.rows))
        left = self._columns(builder, builder.sub(block.n_here, n))
        columns = min_value(builder, left, i64(self.width))
        m0, n0 = builder.add(block.m0, m), self._columns(builder, builder.add(block.n0, n))
        result = acc(grid.acc_dtype)
        with ctx.for_range(builder, i64(0), rows) as row:

            def finish(column: ir.Value, mask: ir.Value | None) -> None:
                at = builder.add(builder.mul(row, i64(self.width)), column)
                pointer = self._elements(builder, tile, at)
                size = grid.acc_dtype.itemsize
                sums = builder.load(pointer, typ=self.vector, align=size)
                env = {
                    **block.env,
                    grid.m.name: builder.add(m0, row),
                    grid.n.name: builder.add(n0, column),
                }
                lanes = Lanes(s.lanes, grid.n, mask, s.nc % s.lanes == 0)
                known = {result: sums}
                emit_stores(ctx, builder, grid.stores, env, lanes, known)

            in_vectors(ctx, builder, columns, s.lanes, finish)

    def _columns(self, builder: ir.IRBuilder, count: ir.Value) -> ir.Value:
        """How many columns of the grid `count` of `inner` are."""
        return count if self.unit == 1 else builder.mul(count, i64(self.unit))

    def _elements(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.gep(base, [at], source_etype=self.element)

    def _bytes(self, builder: ir.IRBuilder, base: ir.Value, offset: int) -> ir.Value:
        return builder.gep(base, [i64(offset)], source_etype=ir.IntType(8))


Place = tuple[Buffer, Expr]


def tile_reads(grid: DotGrid, lanes: int) -> list[Place]:
    """What the epilogue reads once per output, side by side along n: (buffer, index)."""
    names = free_names([store.value for store in grid.stores])
    loads = [node.meta for node in names if node.op == "load" and not node.args]
    return _in_rows(grid, loads, names, lanes)


def tile_writes(grid: DotGrid, lanes: int) -> list[Place]:
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
