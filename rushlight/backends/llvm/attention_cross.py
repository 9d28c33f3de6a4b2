"""Sums for the inner rows of an attention, made in the same pass as those for the owners.

A gradient wants sums over queries (of keys and values) and over keys (of queries). Both from one
pass need 5 products instead of 7. The keys own, block after block in ascending order within one
instance; the sums of the queries lie in scratch, and each panel of keys goes on with their chains:
one chain per element over ascending keys, so the bits are those of two passes.

    sums [row][n] += weights [row][owners] @ other [owner][n]        micro kernel
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from rushlight.backends.llvm.attention_pairs import Place
from rushlight.backends.llvm.attention_results import ResultEmitter
from rushlight.backends.llvm.attention_sides import Layout, Side, up
from rushlight.backends.llvm.attention_steps import Vectors
from rushlight.backends.llvm.context import I1, Env, i64
from rushlight.backends.llvm.micro import MicroShape, micro_kernel
from rushlight.backends.llvm.pack import Operand, PackEmitter, Panel, in_vectors, min_value
from rushlight.compiler.tile.ir import KEY_BLOCK, Axis, PairSum
from rushlight.ir.scalar import cast, const
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import ceildiv

Index = int | Expr


@dataclass(frozen=True)
class _Part:
    """One sum: its packed operand [owner][step], and its sums in tiles [row][columns]."""

    item: PairSum
    n: Axis
    pack: PackEmitter
    step: int
    packed_at: Index
    sums_at: Index


class CrossSums:
    """Sums over the owners, of the inner rows."""

    def __init__(
        self, vectors: Vectors, side: Side, sums: Sequence[PairSum], layout: Layout
    ) -> None:
        self.v, self.side, s = vectors, side, vectors.schedule
        self.rows = up(KEY_BLOCK, s.inner_rows)
        self.parts = []
        tiles = ceildiv(side.inner.extent, KEY_BLOCK)
        for item in sums:
            # Without `other` each weight is multiplied by 1: a + w and fma(w, 1, a) are the same.
            n = item.n or Axis("one", 1)
            value = const(1.0, vectors.dtype) if item.other is None else item.other
            assert isinstance(n.extent, int)
            step = up(max(n.extent, 1), s.columns)
            value = cast(value, vectors.dtype)
            operand = Operand(value, side.owner, n, s.owners, s.lanes, True, vectors.dtype, step)
            packed = layout.place(s.owners * step + operand.slack)
            room = layout.place(tiles * (step // s.columns) * self.rows * s.columns)
            pack = PackEmitter(vectors.ctx, operand)
            self.parts.append(_Part(item, n, pack, step, packed, room))

    def begin(self, builder: ir.IRBuilder) -> None:
        """All sums are 0."""
        v, s = self.v, self.v.schedule
        tiles = v.ctx.int_expr(builder, ceildiv(self.side.inner.extent, KEY_BLOCK), {})
        for part in self.parts:
            rows = builder.mul(tiles, i64(part.step // s.columns * self.rows))
            v.fill(builder, self._local(builder, part.sums_at), rows, v.zero)

    def pack(self, builder: ir.IRBuilder, env: Env, first: ir.Value, owners: ir.Value) -> None:
        """The operands of one block of owners."""
        for part in self.parts:
            width = self.v.ctx.int_expr(builder, part.n.extent, {})
            target = self._local(builder, part.packed_at)
            part.pack.emit(builder, Panel(target, first, owners, i64(0), width), env)

    def add(
        self, builder: ir.IRBuilder, place: Place, panel: ir.Value, weights: Sequence[ir.Value]
    ) -> None:
        """A panel of owners, with the tile of weights of each sum."""
        v, s = self.v, self.v.schedule
        start = builder.sub(place.low, builder.urem(place.low, i64(s.inner_rows)))
        shape = MicroShape(s.inner_rows, s.vectors, s.lanes, v.dtype, s.columns, 1)
        micro = micro_kernel(v.ctx.module, shape, v.ctx.target)
        columns, count = i64(s.columns), min_value(builder, place.left, i64(s.columns))
        for part, weight in zip(self.parts, weights, strict=True):
            # Rows of the first register block that take no part.
            with v.ctx.for_range(builder, start, place.low) as row:
                for column in v.columns():
                    v.store(builder, v.zero, weight, v.at(builder, row, column))
            packed = self._local(builder, part.packed_at)
            b_panel = v.place(builder, packed, builder.mul(panel, i64(part.step)))
            for block in range(part.step // s.columns):
                b = v.place(builder, b_panel, i64(block * s.columns))
                sums = self._sums(builder, part, place.first, block)
                with v.ctx.for_range(builder, start, place.high, s.inner_rows) as row:
                    at = builder.mul(row, columns)
                    a, target = v.place(builder, weight, at), v.place(builder, sums, at)
                    builder.call(micro, [a, b, i64(part.step), count, target, I1(0)])

    def finish(self, builder: ir.IRBuilder, env: Env, results: ResultEmitter) -> None:
        """The stores of all rows."""
        v, ctx, s, side = self.v, self.v.ctx, self.v.schedule, self.side
        extent = ctx.int_expr(builder, side.inner.extent, {})
        for part in self.parts:
            n = part.n
            width = ctx.int_expr(builder, n.extent, {})
            with ctx.for_range(builder, i64(0), extent, KEY_BLOCK) as tile:
                rows = min_value(builder, builder.sub(extent, tile), i64(KEY_BLOCK))
                with ctx.for_range(builder, i64(0), rows) as row:
                    here = {**env, side.inner.name: builder.add(tile, row)}

                    def put(
                        column: ir.Value, mask: ir.Value | None, row=row, tile=tile, here=here,
                        part=part, n=n,
                    ) -> None:  # fmt: skip
                        block = builder.udiv(column, i64(s.columns))
                        at = builder.mul(block, i64(self.rows))
                        at = builder.mul(builder.add(at, row), i64(s.columns))
                        at = builder.add(at, builder.urem(column, i64(s.columns)))
                        sums = self._sums(builder, part, tile, 0)
                        value = v.load(builder, sums, at)
                        results.store_row(
                            builder, part.item.stores, {**here, n.name: column}, n, mask, value
                        )

                    in_vectors(ctx, builder, width, s.lanes, put)

    def _sums(self, builder: ir.IRBuilder, part: _Part, tile: ir.Value, block: int) -> ir.Value:
        """Those of a tile of inner rows, in one block of columns."""
        s = self.v.schedule
        room = self.rows * s.columns
        number = builder.udiv(tile, i64(KEY_BLOCK))
        at = builder.mul(number, i64(part.step // s.columns * room))
        base = self._local(builder, part.sums_at)
        return self.v.place(builder, base, builder.add(at, i64(block * room)))

    def _local(self, builder: ir.IRBuilder, offset: Index) -> ir.Value:
        at = self.v.ctx.int_expr(builder, offset, {})
        return builder.gep(self.v.ctx.args.local, [at], source_etype=ir.IntType(8))
