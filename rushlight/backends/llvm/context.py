"""The frame of one kernel function: arguments, sizes, pointers, locals, loops, index arithmetic.

Loops are emitted guarded and bottom-tested, so code in a loop's preheader runs only if the body
does. Each value has a *depth* (how many loops it lies in), found from its block; an operation on
values of a lower depth is placed in the preheader of the loop where it becomes invariant. So
the emitted IR has no loop-invariant arithmetic and needs no pass for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import llvmlite.ir as ir

from rushlight.backends.llvm.caps import Target, split_target
from rushlight.base.dtypes import DType
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import Buffer, Local, Program
from rushlight.ir.symint import Expr, OpAtom, VarAtom, is_nonnegative

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
Env = Mapping[str, ir.Value]


class GridArgs(NamedTuple):
    """The arguments of a kernel function, see types.py."""

    begin: ir.Value
    end: ir.Value
    buffers: ir.Value
    ints: ir.Value
    scalars: ir.Value
    local: ir.Value
    status: ir.Value


def value_type(dtype: DType) -> ir.Type:
    """The LLVM type of a value: bool is i1, float16 and bfloat16 are their bits in i16."""
    if dtype.kind == "bool":
        return I1
    if dtype.is_floating_point and dtype.itemsize > 2:
        return F32 if dtype.itemsize == 4 else F64
    return ir.IntType(8 * dtype.itemsize)


def memory_type(dtype: DType) -> ir.Type:
    """The LLVM type of an element in memory: bool is one byte."""
    return I8 if dtype.kind == "bool" else value_type(dtype)


def i64(value: int) -> ir.Constant:
    return ir.Constant(I64, int(value))


def new_grid_function(module: ir.Module, name: str, target: Target) -> tuple[ir.Function, GridArgs]:
    """An empty function with the kernel ABI."""
    kinds = ir.FunctionType(ir.VoidType(), [I64, I64, PTR, PTR, PTR, PTR, PTR])
    function = ir.Function(module, kinds, name)
    for arg, arg_name in zip(function.args, GridArgs._fields, strict=True):
        arg.name = arg_name
    for arg in function.args[2:]:
        arg.add_attribute("noalias")
    width = min(512, 8 * target.vector_bytes)
    function.attributes.add("nounwind")
    # llvmlite has no string attributes of its own: they are plain text in the set.
    set.add(function.attributes, f'"prefer-vector-width"="{width}"')
    set.add(function.attributes, '"no-builtins"')
    return function, GridArgs(*function.args)


@dataclass
class Scope:
    """A loop being emitted: `pre` builds in its preheader, `cache` holds what is invariant."""

    pre: ir.IRBuilder
    cache: dict[Any, ir.Value] = field(default_factory=dict)


class LoopHandle:
    """A loop with carried values: read `carried` in the body, `set_next` there, then `results`."""

    def __init__(self, index: ir.Value, carried: list[ir.Value]) -> None:
        self.index, self.carried = index, carried
        self.next: list[ir.Value] = list(carried)
        self.results: list[ir.Value] = []

    def set_next(self, values: Sequence[ir.Value]) -> None:
        self.next = list(values)


class KernelContext:
    """State shared by all emitters while one grid becomes one function."""

    def __init__(self, module: ir.Module, program: Program, caps: Caps, symbol: str) -> None:
        self.module, self.program, self.caps = module, program, caps
        self.target: Target = split_target(caps.features)
        self.vector_bytes = self.target.vector_bytes
        self.function, self.args = new_grid_function(module, symbol, self.target)
        entry = self.function.append_basic_block("entry")
        start = self.function.append_basic_block("start")
        self.builder = ir.IRBuilder(start)
        link = ir.IRBuilder(entry)
        link.branch(start)
        self.entry = ir.IRBuilder(entry)
        self.entry.position_before(entry.terminator)
        self.scopes: list[Scope] = []
        self.block_depth: dict[ir.Block, int] = {entry: 0, start: 0}
        self.buffers = {b: n for n, b in enumerate(program.buffers)}
        self.pointers: dict[Any, ir.Value] = {}
        self.entry_cache: dict[Any, ir.Value] = {}
        # Loads may move out of loops down to this depth; None: they stay where they are asked for.
        self.load_depth: int | None = None
        # How far the element is that a vector load asks for as well (rows_ahead.py).
        self.ahead: Mapping[Buffer, int | Expr] = {}
        # Buffers whose vectors are stored past the caches (streaming.py).
        self.streamed: frozenset[Buffer] = frozenset()

    # ---- arguments -----------------------------------------------------------------------

    def size(self, name: str) -> ir.Value:
        """The i64 value of program.sizes entry `name`."""
        if ("size", name) not in self.entry_cache:
            names = [v.name for v in self.program.sizes]
            if name not in names:
                raise KeyError(f"{self.program.name}: no size {name!r}; there are {names}")
            at = self.entry.gep(self.args.ints, [i64(names.index(name))], source_etype=I64)
            self.entry_cache["size", name] = self.entry.load(at, typ=I64, align=8)
        return self.entry_cache["size", name]

    def param(self, name: str) -> ir.Value:
        """The value of a scalar parameter (bool as i1, float16 and bfloat16 as i16 bits)."""
        if ("param", name) not in self.entry_cache:
            number, param = next(
                (n, p) for n, p in enumerate(self.program.params) if p.name == name
            )
            at = self.entry.gep(self.args.scalars, [i64(number)], source_etype=I64)
            loaded = self.entry.load(at, typ=memory_type(param.dtype), align=8)
            if param.dtype.kind == "bool":
                loaded = self.entry.icmp_unsigned("!=", loaded, ir.Constant(I8, 0))
            self.entry_cache["param", name] = loaded
        return self.entry_cache["param", name]

    def buffer_pointer(self, buffer: Buffer | Local) -> ir.Value:
        """The base address of a buffer, of a scratch buffer by its number, or of a placed local."""
        if buffer not in self.pointers:
            if isinstance(buffer, Local):
                raise KeyError(f"{self.program.name}: tile {buffer.name} is read before a store")
            self.pointers[buffer] = self.scratch_pointer(self.buffers[buffer])
        return self.pointers[buffer]

    def scratch_pointer(self, number: int) -> ir.Value:
        """Pointer number `number` of the launch: program.buffers, then executable.scratch."""
        if ("buffer", number) not in self.entry_cache:
            at = self.entry.gep(self.args.buffers, [i64(number)], source_etype=PTR)
            self.entry_cache["buffer", number] = self.entry.load(at, typ=PTR, align=8)
        return self.entry_cache["buffer", number]

    def stack_array(self, kind: ir.Type, count: int) -> ir.Value:
        """`count` elements on the stack, aligned to a vector. Allocated once per call of k."""
        array = self.entry.alloca(ir.ArrayType(kind, count))
        array.align = 64
        array.type = PTR
        return array

    # ---- where a value lives -------------------------------------------------------------

    @property
    def depth(self) -> int:
        return len(self.scopes)

    def depth_of(self, value: ir.Value) -> int:
        """How many of the open loops the value lies in. Unknown blocks count as innermost."""
        if isinstance(value, ir.Instruction):
            return min(self.block_depth.get(value.parent, self.depth), self.depth)
        return 0

    def builder_at(self, depth: int, builder: ir.IRBuilder) -> ir.IRBuilder:
        """A builder that places code at `depth`: in a preheader, or `builder` if innermost."""
        if depth >= self.depth:
            return builder
        return self.scopes[depth].pre if depth else self.entry

    def cache_at(self, depth: int, innermost: dict[Any, ir.Value]) -> dict[Any, ir.Value]:
        if depth >= self.depth:
            return innermost
        return self.scopes[depth].cache if depth else self.entry_cache

    # ---- loops ---------------------------------------------------------------------------

    @contextmanager
    def for_loop(
        self,
        builder: ir.IRBuilder,
        start: ir.Value,
        stop: ir.Value,
        step: int | ir.Value = 1,
        carried: Sequence[ir.Value] = (),
    ) -> Iterator[LoopHandle]:
        """for (i = start; i < stop; i += step), signed. Code inside uses `builder` as well."""
        step = i64(step) if isinstance(step, int) else step
        outside = self.block_depth.get(builder.block, self.depth)
        guard = builder.block
        pre, body, done = (self.function.append_basic_block(n) for n in ("pre", "body", "done"))
        runs = builder.icmp_signed("<", start, stop)
        builder.cbranch(runs, pre, done)
        pre_builder = ir.IRBuilder(pre)
        pre_builder.branch(body)
        pre_builder.position_before(pre.terminator)
        self.block_depth.update({pre: self.depth, body: self.depth + 1, done: outside})
        builder.position_at_end(body)
        index = builder.phi(I64)
        index.add_incoming(start, pre)
        phis = [builder.phi(value.type) for value in carried]
        for phi, value in zip(phis, carried, strict=True):
            phi.add_incoming(value, pre)
        loop = LoopHandle(index, list(phis))
        self.scopes.append(Scope(pre_builder))
        yield loop
        self.scopes.pop()
        latch = builder.block
        following = builder.add(index, step, flags=("nsw",))
        again = builder.icmp_signed("<", following, stop)
        builder.cbranch(again, body, done)
        index.add_incoming(following, latch)
        builder.position_at_end(done)
        for phi, first, value in zip(phis, carried, loop.next, strict=True):
            phi.add_incoming(value, latch)
            result = builder.phi(value.type)
            result.add_incoming(first, guard)
            result.add_incoming(value, latch)
            loop.results.append(result)

    @contextmanager
    def for_range(
        self, builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, step: int | ir.Value = 1
    ) -> Iterator[ir.Value]:
        """A loop without carried values; gives its index."""
        with self.for_loop(builder, start, stop, step) as loop:
            yield loop.index

    @contextmanager
    def instances(self, extents: Sequence[int | Expr]) -> Iterator[list[ir.Value]]:
        """The loop over the instances of this call; gives the row-major coordinates of each.

        The number of instances of the launch must be the product of `extents`. Code inside uses
        `self.builder`; the function returns after the loop.
        """
        builder = self.builder
        sizes = [self.int_expr(builder, e, {}) for e in extents]
        with self.for_range(builder, self.args.begin, self.args.end) as number:
            coordinates = []
            rest = number
            for size in reversed(sizes[1:]):
                coordinates.append(builder.urem(rest, size))
                rest = builder.udiv(rest, size)
            yield [rest, *reversed(coordinates)] if sizes else []
        builder.ret_void()

    # ---- index arithmetic ----------------------------------------------------------------

    def int_expr(self, builder: ir.IRBuilder, expr: int | Expr, env: Env) -> ir.Value:
        """The i64 value of an index expression without value Vars; env gives the axes."""
        return IndexEmitter(self, builder, env).emit(expr)


class IndexEmitter:
    """Polynomials to i64 arithmetic. Terms are added from the outermost depth inwards.

    `values` gives the i64 value of a "value" Var (lane_index.py passes the scalar emitter).
    """

    def __init__(self, ctx: KernelContext, builder: ir.IRBuilder, env: Env, values: Any = None):
        self.ctx, self.builder, self.env, self.values = ctx, builder, env, values

    def emit(self, expr: int | Expr) -> ir.Value:
        if not isinstance(expr, Expr):
            return i64(expr)
        parts = [self._term(monomial, coef) for monomial, coef in expr.terms]
        if expr.const:
            parts.append(i64(expr.const))
        parts.sort(key=self.ctx.depth_of)
        total = parts[0]
        for part in parts[1:]:
            total = self.op("add", total, part)
        return total

    def op(self, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        """a `name` b at the depth where both are known; folded and cached."""
        if isinstance(a, ir.Constant) and isinstance(b, ir.Constant):
            return i64(_FOLD[name](a.constant, b.constant))
        if name == "add" and isinstance(a, ir.Constant):
            a, b = b, a
        if isinstance(b, ir.Constant) and (name, b.constant) in _NEUTRAL:
            return a
        depth = max(self.ctx.depth_of(a), self.ctx.depth_of(b))
        cache = self.ctx.cache_at(depth, {})
        # The constant itself is in the key: ids of dropped constants may be used again.
        key = (name, a, b.constant if isinstance(b, ir.Constant) else b)
        if key not in cache:
            cache[key] = _EMIT[name](self.ctx.builder_at(depth, self.builder), a, b)
        return cache[key]

    def _term(self, monomial: tuple, coef: int) -> ir.Value:
        factors = sorted(map(self._atom, monomial), key=self.ctx.depth_of)
        product = factors[0]
        for factor in factors[1:]:
            product = self.op("mul", product, factor)
        return self.op("mul", product, i64(coef))

    def _atom(self, atom: Any) -> ir.Value:
        if isinstance(atom, VarAtom):
            if atom.var.kind == "value":
                if self.values is None:
                    raise TypeError(f"index expression holds a loaded value: {atom.var!r}")
                return self.values(atom.var.payload)
            found = self.env.get(atom.name)
            return self.ctx.size(atom.name) if found is None else found
        assert isinstance(atom, OpAtom)
        a, b = self.emit(atom.a), self.emit(atom.b)
        if atom.op in ("floordiv", "mod") and is_nonnegative(atom.a):
            return self.op(f"u{atom.op}", a, b)
        return self.op(atom.op, a, b)


def _nonzero(b: ir.IRBuilder, divisor: ir.Value) -> ir.Value:
    """The divisor, 1 for 0: a hoisted division may run where no element asks for it."""
    if isinstance(divisor, ir.Constant):
        return divisor
    return b.select(b.icmp_signed("==", divisor, i64(0)), i64(1), divisor)


def _add(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.add(x, y, flags=("nsw",))


def _mul(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.mul(x, y, flags=("nsw",))


def _ufloordiv(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.udiv(x, _nonzero(b, y))


def _umod(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.urem(x, _nonzero(b, y))


def _mod(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    y = _nonzero(b, y)
    remainder = b.srem(x, y)
    return b.select(b.icmp_signed("<", remainder, i64(0)), b.add(remainder, y), remainder)


def _floordiv(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    y = _nonzero(b, y)
    below = b.icmp_signed("<", b.srem(x, y), i64(0))
    return b.sub(b.sdiv(x, y), b.zext(below, I64))


def _min(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed("<", x, y), x, y)


def _max(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed(">", x, y), x, y)


_EMIT: dict[str, Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]] = {
    "add": _add,
    "mul": _mul,
    "floordiv": _floordiv,
    "ufloordiv": _ufloordiv,
    "mod": _mod,
    "umod": _umod,
    "min": _min,
    "max": _max,
}
_FOLD = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "ufloordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "umod": lambda a, b: a % b,
    "min": min,
    "max": max,
}
_NEUTRAL = {("add", 0), ("mul", 1), ("floordiv", 1), ("ufloordiv", 1)}
