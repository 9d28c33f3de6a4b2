"""The inner kernel of a contraction: C tile += A panel @ B panel, all sums in registers.

In: a packed A panel ([k][rows], or [rows][row_step]), a B panel with `step` elements from one k to
the next, and a C tile [rows][vectors * lanes] of the accumulation dtype. Out: the C tile.
Always true: each output element is one chain over ascending k (floats: fused multiply-add, ints:
wrapping multiply and add), started from 0 or from the C tile, which holds the chain exactly.
So a caller may cut k anywhere, and no choice of rows, vectors or lanes changes a bit.

One plain loop over k, not unrolled: `rows * vectors` independent chains already hide the latency
(measured: unrolling by 2 and 4 gains nothing, and costs compile time).
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.context import I1, I8, I64, PTR, value_type
from rushlight.backends.llvm.dot_words import SIGNS, multiply_words
from rushlight.backends.llvm.memory import CACHE_LINE, prefetch
from rushlight.backends.llvm.ops import Op, constant, fused_multiply_add, splat
from rushlight.backends.llvm.transpose import emit_transpose
from rushlight.base.dtypes import DType


@dataclass(frozen=True)
class MicroShape:
    """rows x (vectors * lanes) accumulators of `dtype`.

    row_step, k_step: elements of the a panel from one row, and from one k, to the next.
    asks_ahead: does it ask for memory that is needed later, a bit of it with each k?
    words: an element of a panel is two bfloat16 or four int8 (dot_words.py).
    is_apart: a chain of its own, added to the C tile's (sliding.py), instead of going on with that.
    """

    rows: int
    vectors: int
    lanes: int
    dtype: DType
    row_step: int
    k_step: int
    asks_ahead: bool = False
    words: bool = False
    is_apart: bool = False

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def is_corrected(self) -> bool:
        """Do rows of a hold 128 too much in each byte (dot_words.py)?"""
        return self.words and not self.dtype.is_floating_point

    @property
    def element(self) -> ir.Type:
        return value_type(self.dtype)

    @property
    def vector(self) -> ir.Type:
        return ir.VectorType(self.element, self.lanes)


def multiply_add(b: ir.IRBuilder, shape: MicroShape, target: Target, *args: ir.Value) -> ir.Value:
    """x * y + z over vectors: one rounding for floats, wrapping for ints."""
    if shape.words:
        return multiply_words(b, *args)
    if shape.dtype.is_floating_point:
        return fused_multiply_add(Op(b, args, shape.dtype, shape.dtype, target))
    x, y, z = args
    return b.add(b.mul(x, y), z)


def micro_kernel(module: ir.Module, shape: MicroShape, target: Target) -> ir.Function:
    """void micro(ptr a, ptr b, i64 step, i64 k, ptr c, i1 first); first: start from 0, not from c.

    One that asks ahead has (ptr ahead, i64 bytes, ptr last) too: with each k it asks for the pair
    of cache lines at `ahead`, which goes on by `bytes` but not beyond `last`. In bursts between
    the calls the same requests would hold everything up.
    One function per shape in a module; never inlined, so its registers are its own (no spills).
    """
    size = f"{shape.rows}x{shape.vectors}x{shape.lanes}_{shape.row_step}_{shape.k_step}"
    kind = "words_" if shape.words else ""
    name = f"micro_{kind}{shape.dtype.name}_{size}"
    name += "_ahead" if shape.asks_ahead else ""
    name += "_apart" if shape.is_apart else ""
    if name in module.globals:
        return module.globals[name]
    more = [PTR, I64, PTR] if shape.asks_ahead else []
    function = _internal(module, name, [PTR, PTR, I64, I64, PTR, I1, *more])
    for position in (0, 1, 4):
        function.args[position].add_attribute("noalias")
    _emit_body(function, shape, target)
    return function


def _internal(module: ir.Module, name: str, args: list[ir.Type]) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), args), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    return function


def _at(builder: ir.IRBuilder, base: ir.Value, offset: int, shape: MicroShape) -> ir.Value:
    return builder.gep(base, [I64(offset)], source_etype=shape.element)


def _tile(builder: ir.IRBuilder, c: ir.Value, shape: MicroShape) -> list[ir.Value]:
    """The address of each accumulator in the C tile, row by row."""
    count = shape.rows * shape.vectors
    return [_at(builder, c, i * shape.lanes, shape) for i in range(count)]


def _emit_body(function: ir.Function, shape: MicroShape, target: Target) -> None:
    a, b, step, k, c, first, *ahead = function.args
    entry, again, start, loop, done = (
        function.append_basic_block(n) for n in ("entry", "again", "start", "loop", "done")
    )
    size = shape.dtype.itemsize
    builder = ir.IRBuilder(entry)
    builder.cbranch(I1(1) if shape.is_apart else first, start, again)
    builder.position_at_end(again)
    held = [builder.load(p, align=size, typ=shape.vector) for p in _tile(builder, c, shape)]
    builder.branch(start)

    builder.position_at_end(start)
    zero = constant(shape.vector, 0)
    begun = [_phi(builder, shape.vector, (zero, entry), (h, again)) for h in held]
    begun += [zero] * shape.vectors if shape.is_corrected else []
    step_bytes = builder.mul(step, I64(size))
    builder.cbranch(builder.icmp_signed(">", k, I64(0)), loop, done)

    builder.position_at_end(loop)
    left = _phi(builder, I64, (k, start))
    pa, pb = _phi(builder, PTR, (a, start)), _phi(builder, PTR, (b, start))
    sums = [_phi(builder, shape.vector, (v, start)) for v in begun]
    if ahead:
        _ask_ahead(builder, start, loop, *ahead)
    added = _emit_step(builder, pa, pb, sums, shape, target)
    rest = builder.sub(left, I64(1))
    left.add_incoming(rest, loop)
    pa.add_incoming(_at(builder, pa, shape.k_step, shape), loop)
    pb.add_incoming(builder.gep(pb, [step_bytes], source_etype=I8), loop)
    for phi, value in zip(sums, added, strict=True):
        phi.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("!=", rest, I64(0)), loop, done)

    builder.position_at_end(done)
    pairs = zip(begun, added, strict=True)
    last = [_phi(builder, shape.vector, (s, start), (e, loop)) for s, e in pairs]
    _store_tile(builder, _corrected(builder, last, shape), c, first, shape)
    builder.ret_void()


def _corrected(builder: ir.IRBuilder, sums: list[ir.Value], shape: MicroShape) -> list[ir.Value]:
    """The sums of the output: what 128 too much in each byte of a adds, comes last."""
    count = shape.rows * shape.vectors
    if not shape.is_corrected:
        return sums
    return [builder.sub(sums[i], sums[count + i % shape.vectors]) for i in range(count)]


def _store_tile(
    builder: ir.IRBuilder, sums: list[ir.Value], c: ir.Value, first: ir.Value, shape: MicroShape
) -> None:
    size = shape.dtype.itemsize
    for value, pointer in zip(sums, _tile(builder, c, shape), strict=True):
        if shape.is_apart:
            before = builder.load(pointer, align=size, typ=shape.vector)
            value = builder.select(first, value, builder.fadd(before, value))
        builder.store(value, pointer, align=size)


def _ask_ahead(
    builder: ir.IRBuilder, start: ir.Block, loop: ir.Block, ahead: ir.Value, bytes_: ir.Value,
    last: ir.Value,
) -> None:  # fmt: skip
    place = _phi(builder, PTR, (ahead, start))
    for line in (0, CACHE_LINE):
        prefetch(builder, builder.gep(place, [I64(line)], source_etype=I8))
    following = builder.gep(place, [bytes_], source_etype=I8)
    is_beyond = builder.icmp_unsigned(">", following, last)
    place.add_incoming(builder.select(is_beyond, last, following), loop)


def _phi(builder: ir.IRBuilder, kind: ir.Type, *incoming: tuple) -> ir.Value:
    phi = builder.phi(kind)
    for value, block in incoming:
        phi.add_incoming(value, block)
    return phi


def _emit_step(
    builder: ir.IRBuilder,
    a: ir.Value,
    b: ir.Value,
    sums: list[ir.Value],
    shape: MicroShape,
    target: Target,
) -> list[ir.Value]:
    """One k: every accumulator gets its multiply-add."""
    size, lanes = shape.dtype.itemsize, shape.lanes
    columns = [
        builder.load(_at(builder, b, j * lanes, shape), align=size, typ=shape.vector)
        for j in range(shape.vectors)
    ]
    result = []
    # Each row where it is used: all of them first would need more registers than there are.
    for i in range(len(sums) // shape.vectors):
        if i == shape.rows:
            row = constant(shape.vector, SIGNS)
        else:
            place = _at(builder, a, i * shape.row_step, shape)
            row = splat(builder, builder.load(place, align=size, typ=shape.element), lanes)
        for j, column in enumerate(columns):
            held = sums[i * shape.vectors + j]
            result.append(multiply_add(builder, shape, target, row, column, held))
    return result


def turn_kernel(module: ir.Module, lanes: int, dtype: DType) -> ir.Function:
    """void turn(ptr tile, ptr target, i64 step): target's rows, `step` apart, = the tile's columns.

    The tile is a square block of `lanes` vectors. One function for all callers: it is long.
    """
    name = f"turn_{dtype.name}_{lanes}"
    if name in module.globals:
        return module.globals[name]
    function = _internal(module, name, [PTR, PTR, I64])
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    tile, target, step = function.args
    element, size = value_type(dtype), dtype.itemsize
    kind = ir.VectorType(element, lanes)
    rows = []
    for number in range(lanes):
        at = builder.gep(tile, [I64(number * lanes)], source_etype=element)
        rows.append(builder.load(at, typ=kind, align=lanes * size))
    for column in emit_transpose(builder, rows):
        builder.store(column, target, align=size)
        target = builder.gep(target, [step], source_etype=element)
    builder.ret_void()
    return function
