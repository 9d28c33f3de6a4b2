"""Loads of one element or of many lanes, by how the index differs between the lanes.

Coefficient 1 of the lane axis is a vector load, -1 one that is turned round, 0 a scalar load, 2 or
4 every second or fourth element of as many vectors, a few neighbours each in several lanes one
short vector; all else is a gather.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from rushlight.backends.llvm import memory
from rushlight.backends.llvm.access import side_of_group
from rushlight.backends.llvm.context import I32, PTR, i64, memory_type
from rushlight.backends.llvm.lane_index import LaneIndexEmitter
from rushlight.backends.llvm.linear import Linear
from rushlight.backends.llvm.ops import splat
from rushlight.compiler.tile.ir import Store
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, make_polynomial


class LoadEmitter(LaneIndexEmitter):
    """Emits addresses and loads at one place."""

    def pointer(self, buffer: Any, base: int | Expr) -> ir.Value:
        """The address of an element; the invariant part of the index is added outside the loop."""
        place = self.ctx.buffer_pointer(buffer)
        kind = memory_type(buffer.dtype)
        terms, const = (base.terms, base.const) if isinstance(base, Expr) else ((), base)
        by_depth: dict[int, list] = {}
        for monomial, coef in terms:
            one = make_polynomial({monomial: coef}, 0)
            by_depth.setdefault(self.ctx.depth_of(self.index.emit(one)), []).append(one)
        if const:
            by_depth.setdefault(0, []).append(const)
        for depth in sorted(by_depth):
            place = self._step(place, self.index.emit(sum(by_depth[depth], start=0)), kind)
        return place

    def _step(self, place: ir.Value, offset: ir.Value, kind: ir.Type) -> ir.Value:
        def emit(b: ir.IRBuilder) -> ir.Value:
            return b.gep(place, [offset], source_etype=kind)

        return self.numbered(("gep", str(kind), place, offset), [place, offset], emit)

    def pointers(self, buffer: Any, linear: Linear) -> ir.Value:
        """A vector of addresses."""
        place = self.pointer(buffer, linear.base)
        offsets = self.index_vector(i64(0), linear)
        many = self.builder.gep(place, [offsets], source_etype=memory_type(buffer.dtype))
        many.type = ir.VectorType(PTR, self.lanes.count)
        return many

    def load(self, node: E) -> ir.Value:
        buffer, at = node.meta
        mask, other = (self.cache[a] for a in node.args) if node.args else (None, None)
        linear = self.linear(at)
        varying_mask = mask is not None and isinstance(mask.type, ir.VectorType)
        if linear.stride == 0 and linear.extra is None and not varying_mask:
            return self._load_one(buffer, linear.base, mask, other)
        if mask is not None:
            mask, other = self.spread(mask), self.spread(other)
        mask = self.with_lane_mask(mask)
        kind = ir.VectorType(memory_type(buffer.dtype), self.lanes.count)
        if linear.extra is None and linear.stride == 1:
            return self._load_vector(buffer, linear.base, kind, mask, other)
        if linear.extra is None and linear.stride == -1:
            return self._load_backward(buffer, linear.base, kind, mask, other)
        if linear.extra is None:
            side = side_of_group(buffer.size, linear.base, linear.stride)
            if side is not None:
                assert isinstance(linear.stride, int)
                return self._load_of_groups(buffer, linear.base, (linear.stride, side), mask, other)
        if linear.stride == 0 and linear.repeat:
            return self._load_repeated(buffer, linear, mask, other)
        places = self.pointers(buffer, linear)
        return memory.gather(self.builder, places, kind, buffer.dtype, mask, other)

    def _load_vector(
        self,
        buffer: Any,
        base: int | Expr,
        kind: ir.VectorType,
        mask: ir.Value | None,
        other: ir.Value | None,
    ) -> ir.Value:
        place = self.pointer(buffer, base)
        self._ask_ahead(buffer, place)
        key = ("load", buffer, place, mask, other, self.lanes.count)
        inputs = [v for v in (place, mask, other) if v is not None]

        def load(b: ir.IRBuilder) -> ir.Value:
            return memory.load_vector(b, place, kind, buffer.dtype, mask, other)

        return self.numbered(key, inputs, load, self._load_floor())

    def _load_backward(
        self,
        buffer: Any,
        base: int | Expr,
        kind: ir.VectorType,
        mask: ir.Value | None,
        other: ir.Value | None,
    ) -> ir.Value:
        """Elements from `base` down, as in a flip."""
        lanes, b = range(kind.count - 1, -1, -1), self.builder
        masks, others = (
            None if v is None else memory.shuffle(b, v, v, lanes) for v in (mask, other)
        )
        found = self._load_vector(buffer, base - (kind.count - 1), kind, masks, others)
        return memory.shuffle(b, found, found, lanes)

    def _ask_ahead(self, buffer: Any, place: ir.Value) -> None:
        if buffer in self.ctx.ahead:  # see rows_ahead.py
            distance = self.index.emit(self.ctx.ahead[buffer])
            there = self._step(place, distance, memory_type(buffer.dtype))
            memory.prefetch(self.builder, there, level=2)

    def ask_for(self, store: Store, distance: int) -> None:
        """Ask for the line that a later store fills, so many elements on."""
        place = self.pointer(store.dest, self.linear(store.at).base)
        there = self._step(place, i64(distance), memory_type(store.dest.dtype))
        memory.prefetch(self.builder, there, to_write=True, level=2)

    def _load_of_groups(
        self,
        buffer: Any,
        base: int | Expr,
        which: tuple[int, int],
        mask: ir.Value | None,
        other: ir.Value | None,
    ) -> ir.Value:
        """which: (elements of a group, the one of each that is meant); all share the load."""
        size, side = which
        count, place = self.lanes.count, self.pointer(buffer, base - side)
        kind = ir.VectorType(memory_type(buffer.dtype), size * count)

        def load(b: ir.IRBuilder) -> ir.Value:
            masks, others = (
                None if v is None else memory.repeated(b, v, size) for v in (mask, other)
            )
            return memory.load_vector(b, place, kind, buffer.dtype, masks, others)

        inputs = [v for v in (place, mask, other) if v is not None]
        key = ("load groups", buffer, place, mask, other, count, size)
        all_ = self.numbered(key, inputs, load, self._load_floor())
        ours = range(side, size * count, size)
        return self.numbered(
            ("lanes", all_, ours), [all_], lambda b: memory.shuffle(b, all_, all_, ours)
        )

    def _load_repeated(
        self, buffer: Any, linear: Linear, mask: ir.Value | None, other: ir.Value | None
    ) -> ir.Value:
        """Each of a few neighbouring elements in several lanes side by side."""
        count, times, b = self.lanes.count, linear.repeat, self.builder
        place = self.pointer(buffer, linear.base)
        kind = ir.VectorType(memory_type(buffer.dtype), count // times)
        self._ask_ahead(buffer, place)
        needed = None if mask is None else memory.any_of(b, mask, times)
        few = memory.load_vector(b, place, kind, buffer.dtype, needed, None)
        many = memory.shuffle(b, few, few, [n // times for n in range(count)])
        return many if other is None or mask is None else b.select(mask, many, other)

    def _load_floor(self) -> int:
        return self.ctx.depth if self.ctx.load_depth is None else self.ctx.load_depth

    def _load_one(
        self, buffer: Any, base: int | Expr, mask: ir.Value | None, other: ir.Value | None
    ) -> ir.Value:
        place = self.pointer(buffer, base)
        kind = memory_type(buffer.dtype)

        def emit(b: ir.IRBuilder) -> ir.Value:
            if mask is None:
                loaded = b.load(place, typ=kind, align=buffer.dtype.itemsize)
                return memory.from_memory(b, loaded, buffer.dtype)
            one = ir.VectorType(kind, 1)
            masks, others = (splat(b, v, 1) for v in (mask, other))
            loaded = memory.load_vector(b, place, one, buffer.dtype, masks, others)
            return b.extract_element(loaded, ir.Constant(I32, 0))

        inputs = [v for v in (place, mask, other) if v is not None]
        key = ("load", buffer, place, mask, other)
        return self.numbered(key, inputs, emit, self._load_floor())

    def with_lane_mask(self, mask: ir.Value | None) -> ir.Value | None:
        lanes = self.lanes.mask
        if mask is None or lanes is None:
            return mask if lanes is None else lanes
        return self.builder.and_(lanes, mask)
