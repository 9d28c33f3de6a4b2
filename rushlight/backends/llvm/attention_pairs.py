"""Expressions at pairs of an owner and an inner row: masks, scores, weights.

In: tiles [row][columns] of accs, where the panel lies. Out: the values of an expression for the
owners of one vector. Loads whose neighbours lie along the rows (a mask [l][s] read with queries in
lanes) would be gathers: they are turned in square blocks into tiles first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from rushlight.backends.llvm.access import OTHER, find_accesses, stride_along
from rushlight.backends.llvm.attention_sides import Layout, Side
from rushlight.backends.llvm.context import Env, IndexEmitter, KernelContext, i64, memory_type
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.micro import turn_kernel
from rushlight.backends.llvm.ops import constant
from rushlight.backends.llvm.pack import in_vectors, lane_mask, min_value
from rushlight.backends.llvm.schedule_attention import AttentionSchedule
from rushlight.backends.llvm.values import ValueEmitter, emit_value
from rushlight.base.dtypes import DType, uint8
from rushlight.compiler.tile.ir import KEY_BLOCK, AttentionGrid
from rushlight.ir.scalar import E, index, le, topological

Index = "int | Expr"


@dataclass(frozen=True)
class Place:
    """One panel and one tile: env holds the batch and the panel's first owner, `left` counts the
    owners from there, `first` is the tile's first inner row; rows low...high - 1 take part."""

    env: Env
    left: ir.Value
    first: ir.Value
    low: ir.Value
    high: ir.Value


def kept_pairs(grid: AttentionGrid) -> E | None:
    """Both parts of the mask."""
    kept = grid.keep
    if grid.causal:
        causal = le(index(grid.s.var), index(grid.l.var))
        kept = causal if kept is None else causal & kept
    return kept


class PairEmitter:
    """Evaluates roots at pairs; `turned`: loads that are read from tiles."""

    def __init__(
        self, ctx: KernelContext, grid: AttentionGrid, side: Side, s: AttentionSchedule,
        roots: Sequence[E], layout: Layout,
    ) -> None:  # fmt: skip
        self.ctx, self.grid, self.side, self.schedule = ctx, grid, side, s
        self.kept = kept_pairs(grid)
        masks = [] if self.kept is None else [self.kept]
        self.turned: dict[E, int | object] = {}
        for node in self._across([*roots, *masks]):
            size = memory_type(node.dtype)
            self.turned[node] = layout.place(KEY_BLOCK * s.columns, _bytes(size))
        self.of_mask = set(topological(masks)) - set(topological(list(roots)))
        if self.turned:
            widest = max(node.dtype.itemsize for node in self.turned)
            self.square = ctx.stack_array(ir.IntType(8), s.lanes * s.lanes * widest)
        self.reads = any(node.op == "load" for node in topological([*roots, *masks]))

    def _across(self, roots: list[E]) -> list[E]:
        """Loads that step along the inner axis by 1 and along the owners by more."""
        names = find_accesses(roots, ()).names
        owner, inner = self.side.owner.name, self.side.inner.name
        return [
            node
            for node in names
            if node.op == "load"
            and not node.args
            and stride_along(node.meta[1], owner, names) is OTHER
            and stride_along(node.meta[1], inner, names) == 1
        ]

    # ---- tiles of turned loads -----------------------------------------------------------

    def turn(self, builder: ir.IRBuilder, place: Place, of_mask: bool) -> None:
        """Fill the tiles of the loads that only the mask reads, or of the others."""
        for node in self.turned:
            if (node in self.of_mask) == of_mask:
                self._turn(builder, place, node)

    def _turn(self, builder: ir.IRBuilder, place: Place, node: E) -> None:
        ctx, s = self.ctx, self.schedule
        inner, owner = self.side.inner, self.side.owner
        element = memory_type(node.dtype)
        target = self._tile(builder, node)
        turn = turn_kernel(ctx.module, s.lanes, _as_bytes(node.dtype))
        at = IndexEmitter(ctx, builder, {})
        for column in range(0, s.columns, s.lanes):
            rows = min_value(builder, builder.sub(place.left, i64(column)), i64(s.lanes))

            def fill(row: ir.Value, mask: ir.Value | None, column=column, rows=rows) -> None:
                with ctx.for_range(builder, i64(0), rows) as lane:
                    l0 = at.op("add", place.env[owner.name], i64(column))
                    here = {
                        **place.env,
                        owner.name: at.op("add", l0, lane),
                        inner.name: at.op("add", place.first, row),
                    }
                    emitter = ValueEmitter(ctx, builder, here, Lanes(s.lanes, inner, mask), {})
                    value = emitter.full(node)
                    if node.dtype.kind == "bool":
                        value = builder.zext(value, ir.VectorType(element, s.lanes))
                    spot = builder.mul(lane, i64(s.lanes))
                    spot = builder.gep(self.square, [spot], source_etype=element)
                    builder.store(value, spot, align=node.dtype.itemsize)
                to = builder.add(builder.mul(row, i64(s.columns)), i64(column))
                to = builder.gep(target, [to], source_etype=element)
                builder.call(turn, [self.square, to, i64(s.columns)])

            in_vectors(ctx, builder, place.high, s.lanes, fill)

    def _tile(self, builder: ir.IRBuilder, node: E) -> ir.Value:
        offset = self.ctx.int_expr(builder, self.turned[node], {})  # type: ignore[arg-type]
        return builder.gep(self.ctx.args.local, [offset], source_etype=ir.IntType(8))

    # ---- values --------------------------------------------------------------------------

    def lane_masks(self, builder: ir.IRBuilder, left: ir.Value) -> list[ir.Value | None]:
        """Which owners of each vector exist; None where nobody asks."""
        s = self.schedule
        return [
            lane_mask(builder, builder.sub(left, i64(at)), s.lanes) if self.reads else None
            for at in range(0, s.columns, s.lanes)
        ]

    def at(
        self, builder: ir.IRBuilder, place: Place, row: ir.Value, column: int,
        mask: ir.Value | None, accs: dict[E, ir.Value], partial: bool,
    ) -> tuple[_At, ir.Value | None]:  # fmt: skip
        """An evaluator for one vector of pairs, and which of them are kept (None: all)."""
        ctx, s, side = self.ctx, self.schedule, self.side
        index = IndexEmitter(ctx, builder, {})
        here = {
            **place.env,
            side.owner.name: index.op("add", place.env[side.owner.name], i64(column)),
            side.inner.name: index.op("add", place.first, row),
        }
        leaves = dict(accs)
        for node in self.turned:
            if partial or node not in self.of_mask:
                leaves[node] = self._load_turned(builder, node, row, column)
        kept = None
        if partial and self.kept is not None:
            lanes = Lanes(s.lanes, side.owner, mask)
            kept = emit_value(ctx, builder, self.kept, here, lanes, {}, leaves)
            if self.reads:
                mask = kept if mask is None else builder.and_(mask, kept)
        return _At(ctx, builder, here, Lanes(s.lanes, side.owner, mask), leaves), kept

    def _load_turned(self, builder: ir.IRBuilder, node: E, row: ir.Value, column: int) -> ir.Value:
        s, element = self.schedule, memory_type(node.dtype)
        at = builder.add(builder.mul(row, i64(s.columns)), i64(column))
        place = builder.gep(self._tile(builder, node), [at], source_etype=element)
        kind = ir.VectorType(element, s.lanes)
        value = builder.load(place, typ=kind, align=node.dtype.itemsize)
        if node.dtype.kind == "bool":
            return builder.icmp_unsigned("!=", value, constant(kind, 0))
        return value


class _At:
    """Values at one vector of pairs; what two expressions share is emitted once."""

    def __init__(
        self, ctx: KernelContext, builder: ir.IRBuilder, env: Env, lanes: Lanes,
        leaves: dict[E, ir.Value],
    ) -> None:  # fmt: skip
        self._emitter = ValueEmitter(ctx, builder, env, lanes, {}, leaves)

    def value(self, e: E) -> ir.Value:
        return self._emitter.full(e)


def _bytes(kind: ir.Type) -> int:
    return {"float": 4, "double": 8}.get(str(kind)) or kind.width // 8


def _as_bytes(dtype: DType) -> DType:
    return uint8 if dtype.kind == "bool" else dtype
