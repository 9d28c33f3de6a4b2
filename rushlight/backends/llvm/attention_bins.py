"""Sums of weights into bins (PairBins), for the queries of a whole batch element.

An instance goes over blocks of KEY_BLOCK queries and, in each, over tiles of KEY_BLOCK keys.
Queries lie in lanes; what a panel adds goes query by query, key by key, so its width changes no
bit.

    for each query of the panel, for each key of the tile:  bins[bin(l, s)] += weights[s][l]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from rushlight.backends.llvm.attention_pairs import Place
from rushlight.backends.llvm.attention_results import ResultEmitter
from rushlight.backends.llvm.attention_sides import Layout, Side
from rushlight.backends.llvm.attention_steps import Vectors
from rushlight.backends.llvm.context import Env, IndexEmitter, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.ops import constant
from rushlight.backends.llvm.pack import in_vectors, min_value
from rushlight.backends.llvm.values import emit_value
from rushlight.compiler.tile.ir import PairBins
from rushlight.ir.scalar import E


class BinSums:
    """The bins of a side, in scratch."""

    def __init__(self, vectors: Vectors, side: Side, layout: Layout) -> None:
        self.v, self.side = vectors, side
        lanes = vectors.schedule.lanes
        self.bins_at = [layout.place(item.n.extent + lanes) for item in side.bins]

    def begin(self, builder: ir.IRBuilder) -> None:
        """All bins are 0."""
        v, lanes = self.v, self.v.schedule.lanes
        for item, base in self._items(builder):
            count = v.ctx.int_expr(builder, item.n.extent, {})
            with v.ctx.for_range(builder, i64(0), count, lanes) as at:
                v.store(builder, v.zero, base, at)

    def add(
        self, builder: ir.IRBuilder, place: Place, tiles: Mapping[E, ir.Value]
    ) -> None:  # fmt: skip
        """A panel of queries with a tile of keys; tiles: those of the weights."""
        v, ctx, side = self.v, self.v.ctx, self.side
        zero, index = constant(v.element, 0.0), IndexEmitter(ctx, builder, {})
        queries = min_value(builder, place.left, i64(v.schedule.columns))
        for item, base in self._items(builder):
            count = ctx.int_expr(builder, item.n.extent, {})
            with ctx.for_range(builder, i64(0), queries) as column:
                query = index.op("add", place.env[side.owner.name], column)
                with ctx.for_range(builder, place.low, place.high) as row:
                    at = builder.add(builder.mul(row, i64(v.schedule.columns)), column)
                    at = v.place(builder, tiles[item.weight], at)
                    weight = builder.load(at, typ=v.element, align=v.size)
                    with builder.if_then(builder.fcmp_unordered("!=", weight, zero)):
                        here = {
                            **place.env,
                            side.owner.name: query,
                            side.inner.name: index.op("add", place.first, row),
                        }
                        number = emit_value(ctx, builder, item.bin, here, Lanes(), {})
                        with builder.if_then(builder.icmp_unsigned("<", number, count)):
                            bin_ = v.place(builder, base, number)
                            old = builder.load(bin_, typ=v.element, align=v.size)
                            builder.store(builder.fadd(old, weight), bin_, align=v.size)

    def finish(self, builder: ir.IRBuilder, env: Env, results: ResultEmitter) -> None:
        """The stores."""
        v = self.v
        for item, base in self._items(builder):

            def put(column: ir.Value, mask: ir.Value | None, item=item, base=base) -> None:
                value, here = v.load(builder, base, column), {**env, item.n.name: column}
                results.store_row(builder, item.stores, here, item.n, mask, value)

            count = v.ctx.int_expr(builder, item.n.extent, {})
            in_vectors(v.ctx, builder, count, v.schedule.lanes, put)

    def _items(self, builder: ir.IRBuilder) -> Sequence[tuple[PairBins, ir.Value]]:
        """Each with the address of its bins."""
        found = []
        for item, offset in zip(self.side.bins, self.bins_at, strict=True):
            at = self.v.ctx.int_expr(builder, offset, {})
            base = builder.gep(self.v.ctx.args.local, [at], source_etype=ir.IntType(8))
            found.append((item, base))
        return found
