"""Scalar expressions to LLVM values: one lane, or `count` lanes along an axis.

What is the same in all lanes stays a scalar and is splatted where a vector needs it. Loads look at
the index polynomial: coefficient 1 of the lane axis is a vector load, 0 a scalar load, 2 every
second element of two vectors, anything else a gather. Invariant parts move to the preheader of the
loop where they become invariant (context.py); values are numbered, so equal operations on equal
values are emitted once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir

from rushlight.backends.llvm import memory
from rushlight.backends.llvm.access import every_second
from rushlight.backends.llvm.casts import emit_bitcast, emit_cast
from rushlight.backends.llvm.context import (
    I32,
    I64,
    PTR,
    Env,
    IndexEmitter,
    KernelContext,
    i64,
    memory_type,
    value_type,
)
from rushlight.backends.llvm.linear import Linear, repeat_of, split_by_lane
from rushlight.backends.llvm.ops import (
    OPS,
    Op,
    constant,
    constant_payload,
    splat,
    vector_index_op,
    with_lanes,
)
from rushlight.base.dtypes import DType
from rushlight.compiler.tile.ir import Axis
from rushlight.ir.scalar import E, children
from rushlight.ir.symint import Expr, OpAtom, make_polynomial
from rushlight.ir.symint_walk import variables

Cache = dict[Any, ir.Value]


@dataclass(frozen=True)
class Lanes:
    """`count` points at once: lane l is env[axis.name] + l. mask (<count x i1>): lanes that are
    there; masked lanes read and write nothing. What is the same in all lanes is
    read without asking the mask, so some lane must be there. aligned: the first lane's place is a
    multiple of count (see linear.py)."""

    count: int = 1
    axis: Axis | None = None
    mask: ir.Value | None = None
    aligned: bool = False


def emit_value(
    ctx: KernelContext,
    builder: ir.IRBuilder,
    e: E,
    env: Env,
    lanes: Lanes,
    cache: Cache,
    leaves: dict[E, ir.Value] | None = None,
) -> ir.Value:
    """The value of `e`: a vector <lanes.count x T>, or a scalar when count is 1.

    cache   what is known in this block for this env and these lanes (start with {})
    leaves  values of expressions that are already there (such as scalar.acc)
    """
    return ValueEmitter(ctx, builder, env, lanes, cache, leaves).full(e)


class ValueEmitter:
    """Emits expressions at one place: a builder, an env and lanes."""

    def __init__(
        self,
        ctx: KernelContext,
        builder: ir.IRBuilder,
        env: Env,
        lanes: Lanes,
        cache: Cache,
        leaves: dict[E, ir.Value] | None = None,
    ) -> None:
        self.ctx, self.builder, self.env, self.lanes, self.cache = ctx, builder, env, lanes, cache
        if leaves:
            cache.update(leaves)
        self.index = IndexEmitter(ctx, builder, env, self._uniform_index)

    # ---- expressions ---------------------------------------------------------------------

    def full(self, e: E) -> ir.Value:
        """The value with all lanes."""
        return self.spread(self.value(e))

    def value(self, e: E) -> ir.Value:
        """The value; a scalar if it is the same in all lanes."""
        stack = [e]
        while stack:
            node = stack[-1]
            if node in self.cache:
                stack.pop()
                continue
            missing = [c for c in children(node) if c not in self.cache]
            if missing:
                stack.extend(missing)
                continue
            self.cache[node] = self._emit(node)
            stack.pop()
        return self.cache[e]

    def _emit(self, node: E) -> ir.Value:
        if node.op == "const":
            return ir.Constant(value_type(node.dtype), constant_payload(node))
        if node.op == "param":
            return self.ctx.param(node.meta)
        if node.op == "index":
            return self.index_value(node.meta)
        if node.op in ("load", "local"):
            return self._load(node)
        if node.op == "check_index":
            return self._check(node)
        if node.op == "cast":
            return self._pure(emit_cast, node)
        if node.op == "bitcast":
            return self._pure(emit_bitcast, node)
        if node.op not in OPS:
            raise TypeError(
                f"{self.ctx.program.name}: the llvm backend got the op {node.op!r}; math ops are "
                "expanded to basic ops before (decompose_math), and acc needs a value in `leaves`"
            )
        return self._pure(OPS[node.op], node)

    def _pure(self, emit: Any, node: E) -> ir.Value:
        args = [self.cache[a] for a in node.args]
        if any(isinstance(a.type, ir.VectorType) for a in args):
            keep_condition = node.op == "select" and not isinstance(args[0].type, ir.VectorType)
            args = [a if keep_condition and n == 0 else self.spread(a) for n, a in enumerate(args)]
        source = node.args[0].dtype
        key = (node.op, node.dtype, source, *args)
        return self.numbered(
            key, args, lambda b: emit(Op(b, tuple(args), node.dtype, source, self.ctx.target))
        )

    def numbered(self, key: tuple, inputs: list[ir.Value], emit: Any, floor: int = 0) -> ir.Value:
        """emit(builder) at the depth of `inputs` (not above `floor`), once per key."""
        depth = max([floor, *map(self.ctx.depth_of, inputs)])
        cache = self.ctx.cache_at(depth, self.cache)
        if key not in cache:
            cache[key] = emit(self.ctx.builder_at(depth, self.builder))
        return cache[key]

    def spread(self, value: ir.Value) -> ir.Value:
        """A scalar in all lanes."""
        count = self.lanes.count
        if count == 1 or isinstance(value.type, ir.VectorType):
            return value
        return self.numbered(("splat", count, value), [value], lambda b: splat(b, value, count))

    def _check(self, node: E) -> ir.Value:
        """0 where the index is out of range, and the site number into the status word."""
        size, site = node.meta
        value = self.cache[node.args[0]]
        wide = self._as_i64(value, node.args[0].dtype)
        limit = self.index_value(size)
        if isinstance(wide.type, ir.VectorType):
            limit = self.spread(limit)
        mask = self.lanes.mask if isinstance(wide.type, ir.VectorType) else None

        def emit(b: ir.IRBuilder) -> ir.Value:
            bad = b.icmp_unsigned(">=", wide, limit)
            live = bad if mask is None else b.and_(bad, mask)
            failed = memory.any_lane(b, live)
            status = b.load(self.ctx.args.status, typ=I64, align=8)
            b.store(b.select(failed, i64(site), status), self.ctx.args.status, align=8)
            return b.select(bad, constant(value.type, 0), value)

        inputs = [value, limit] if mask is None else [value, limit, mask]
        return self.numbered(("check", site, *inputs), inputs, emit)

    # ---- indices -------------------------------------------------------------------------

    def index_value(self, expr: int | Expr) -> ir.Value:
        """An index expression as i64: a vector if it differs between the lanes."""
        linear = self.linear(expr)
        base = self.index.emit(linear.base)
        if linear.extra is None and linear.stride == 0:
            return base
        return self._index_vector(base, linear)

    def _index_vector(self, base: ir.Value, linear: Linear) -> ir.Value:
        count = self.lanes.count
        total = self.spread(base)
        if linear.stride != 0:
            steps = ir.Constant(ir.VectorType(I64, count), list(range(count)))
            if linear.stride != 1:
                steps = self._vector_op("mul", steps, self.spread(self.index.emit(linear.stride)))
            total = self._vector_op("add", total, steps)
        if linear.extra is not None:
            total = self._vector_op("add", total, linear.extra)
        return total

    def linear(self, expr: int | Expr) -> Linear:
        """An index expression split by how it depends on the lane."""
        lanes = self.lanes
        if not isinstance(expr, Expr) or lanes.axis is None or lanes.count == 1:
            return Linear(expr, 0, None)
        parts = split_by_lane(expr, lanes.axis.name, lanes.count, lanes.aligned, self._varies)
        extra = None
        if parts.pattern:
            extra = ir.Constant(ir.VectorType(I64, lanes.count), list(parts.pattern))
        for monomial, coef in parts.rest.items():
            term = self._vector_term(monomial, coef)
            extra = term if extra is None else self._vector_op("add", extra, term)
        unit = parts.stride.pop((), 0)
        base = make_polynomial(parts.base, expr.const)
        repeat = 0 if parts.rest else repeat_of(parts.pattern)
        return Linear(base, make_polynomial(parts.stride, unit), extra, repeat)

    def _varies(self, atom: Any) -> bool:
        if isinstance(atom, OpAtom):
            inner = {**variables(atom.a), **variables(atom.b)}
            return any(self._varies(v.atom) for v in inner.values())
        if atom.var.kind == "value":
            return isinstance(self.value(atom.var.payload).type, ir.VectorType)
        return self.lanes.axis is not None and atom.name == self.lanes.axis.name

    def _vector_term(self, monomial: tuple, coef: int) -> ir.Value:
        product = self.spread(i64(coef))
        for atom in monomial:
            product = self._vector_op("mul", product, self.spread(self._vector_atom(atom)))
        return product

    def _vector_atom(self, atom: Any) -> ir.Value:
        if isinstance(atom, OpAtom):
            a, b = (self.spread(self.index_value(x)) for x in (atom.a, atom.b))
            return self._vector_op(atom.op, a, b)
        if atom.var.kind == "value":
            return self._as_i64(self.value(atom.var.payload), atom.var.payload.dtype)
        return self.index_value(atom.var)

    def _vector_op(self, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        ones = f"splat (i64 {1 if name == 'mul' else 0})"
        if name in ("mul", "add") and isinstance(a, ir.FormattedConstant) and a.constant == ones:
            return b
        return self.numbered((name, a, b), [a, b], lambda at: vector_index_op(at, name, a, b))

    def _uniform_index(self, payload: E) -> ir.Value:
        return self._as_i64(self.value(payload), payload.dtype)

    def _as_i64(self, value: ir.Value, dtype: DType) -> ir.Value:
        if dtype.itemsize == 8:
            return value
        kind = with_lanes(I64, value.type)
        name = "sext" if dtype.kind == "int" else "zext"
        return self.numbered((name, value), [value], lambda b: getattr(b, name)(value, kind))

    # ---- memory --------------------------------------------------------------------------

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
        offsets = self._index_vector(i64(0), linear)
        many = self.builder.gep(place, [offsets], source_etype=memory_type(buffer.dtype))
        many.type = ir.VectorType(PTR, self.lanes.count)
        return many

    def _load(self, node: E) -> ir.Value:
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
        if linear.stride == 1 and linear.extra is None:
            place = self.pointer(buffer, linear.base)
            self._ask_ahead(buffer, place)
            floor = self._load_floor()
            key = ("load", buffer, place, mask, other, self.lanes.count)
            inputs = [v for v in (place, mask, other) if v is not None]
            return self.numbered(
                key,
                inputs,
                lambda b: memory.load_vector(b, place, kind, buffer.dtype, mask, other),
                floor,
            )
        side = (
            None
            if linear.extra is not None
            else every_second(buffer.size, linear.base, linear.stride)
        )
        if side is not None:
            return self._load_every_second(buffer, linear.base, side, mask, other)
        if linear.stride == 0 and linear.repeat:
            return self._load_repeated(buffer, linear, mask, other)
        return memory.gather(
            self.builder, self.pointers(buffer, linear), kind, buffer.dtype, mask, other
        )

    def _ask_ahead(self, buffer: Any, place: ir.Value) -> None:
        if buffer in self.ctx.ahead:  # see rows_ahead.py
            there = self._step(place, i64(self.ctx.ahead[buffer]), memory_type(buffer.dtype))
            memory.prefetch(self.builder, there, level=2)

    def _load_every_second(
        self,
        buffer: Any,
        base: int | Expr,
        side: int,
        mask: ir.Value | None,
        other: ir.Value | None,
    ) -> ir.Value:
        """The even or odd ones of twice as many elements; both sides share the load."""
        count, place = self.lanes.count, self.pointer(buffer, base - side)
        kind = ir.VectorType(memory_type(buffer.dtype), 2 * count)

        def load(b: ir.IRBuilder) -> ir.Value:
            masks, others = (None if v is None else memory.twice(b, v) for v in (mask, other))
            return memory.load_vector(b, place, kind, buffer.dtype, masks, others)

        inputs = [v for v in (place, mask, other) if v is not None]
        key = ("load two", buffer, place, mask, other, count)
        both = self.numbered(key, inputs, load, self._load_floor())
        ours = range(side, 2 * count, 2)
        return self.numbered(
            ("lanes", both, ours), [both], lambda b: memory.shuffle(b, both, both, ours)
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
