"""Large results go to memory past the caches: a plain store first reads the line that it fills.

In: the stores of a statement, the range its vectors run along, and how many lanes they have. Out:
the buffers whose stores may stream. Always true: a streamed store fills its vector's bytes at a
multiple of them, which the kernel checks once for the buffer's address; memory that does not lie so
is stored plainly, with the same bits. The pool counts finished units with locked instructions,
which wait until streamed stores are seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from llvmlite import ir

from rushlight.backends.llvm.access import Index, Range, step_along
from rushlight.backends.llvm.context import I64, Env, KernelContext, i64
from rushlight.compiler.tile.ir import Buffer, Store
from rushlight.ir.scalar import topological
from rushlight.ir.symint import Expr, VarAtom

# A result of at least so many bytes is not in the last cache when it is read again.
STREAM_BYTES = 32 << 20
ALIGN = 64


def streamed_buffers(
    stores: Sequence[Store], chosen: Range | None, lanes: int
) -> frozenset[Buffer]:
    """Buffers that a statement fills with whole aligned vectors, and does not read."""
    whole = None if chosen is None else _whole(chosen)
    if chosen is None or whole is None or whole % lanes or lanes == 1:
        return frozenset()
    if not _is_multiple(chosen.start, chosen, lanes):
        return frozenset()
    values = [e for s in stores for e in (s.value, s.mask) if e is not None]
    read = {node.meta[0] for node in topological(tuple(values)) if node.op == "load"}
    dests = dict.fromkeys(s.dest for s in stores)
    return frozenset(
        dest
        for dest in dests
        if isinstance(dest, Buffer)
        and dest.role == "out"
        and dest not in read
        and _may_be_large(dest)
        and all(_fills(s, chosen, lanes) for s in stores if s.dest is dest)
    )


def _whole(part: Range) -> int | None:
    """The size of a whole block: where the range stops at min(start + size, ...), that size."""
    if isinstance(part.extent, int):
        return part.extent
    if not isinstance(part.stop, Expr) or len(part.stop.terms) != 1 or part.stop.const:
        return None
    ((monomial, coef),) = part.stop.terms
    if coef != 1 or len(monomial) != 1 or monomial[0].op != "min":
        return None
    ends = [end - part.start for end in (monomial[0].a, monomial[0].b)]
    return next((size for size in ends if isinstance(size, int)), None)


def _may_be_large(dest: Buffer) -> bool:
    return isinstance(dest.size, Expr) or dest.size * dest.dtype.itemsize >= STREAM_BYTES


def _fills(store: Store, chosen: Range, lanes: int) -> bool:
    is_dense = store.mask is None and step_along(store.at, chosen.axis.name, {}) == 1
    return is_dense and _is_multiple(store.at, chosen, lanes)


def _is_multiple(at: Index, chosen: Range, lanes: int) -> bool:
    """Is an offset a multiple of `lanes` where the chosen axis is one?"""
    if not isinstance(at, Expr):
        return at % lanes == 0
    return at.const % lanes == 0 and all(
        coef % lanes == 0 or _is_axis(monomial, chosen) for monomial, coef in at.terms
    )


def _is_axis(monomial: tuple, chosen: Range) -> bool:
    return any(isinstance(atom, VarAtom) and atom.name == chosen.axis.name for atom in monomial)


def with_streams(
    ctx: KernelContext,
    buffers: frozenset[Buffer],
    chosen: Range | None,
    env: Env,
    emit: Callable[[Range | None], None],
) -> None:
    """Emit the code twice, with streamed stores for whole blocks and plainly; the sizes and the
    memory of this call decide which of them runs. `emit` gets the range that the vectors cover."""
    if not buffers or chosen is None:
        emit(chosen)
        return
    b = ctx.builder
    runs, whole = _runs(ctx, buffers), _whole(chosen)
    assert whole is not None
    if not isinstance(chosen.extent, int):
        extent = ctx.int_expr(b, chosen.extent, env)
        runs = b.and_(runs, b.icmp_signed("==", extent, i64(whole)))
    block = replace(chosen, stop=chosen.start + whole)
    for taken, streamed, part in ((runs, buffers, block), (b.not_(runs), frozenset(), chosen)):
        # A loop of one turn or none: what belongs to one side moves out of its loops, not further.
        with ctx.for_range(b, i64(0), b.zext(taken, I64)):
            ctx.streamed = streamed
            emit(part)
    ctx.streamed = frozenset()


def _runs(ctx: KernelContext, buffers: frozenset[Buffer]) -> ir.Value:
    """Are all of them large, at addresses that are multiples of ALIGN?"""
    b = ctx.builder
    bits, runs = i64(0), ir.Constant(ir.IntType(1), 1)
    for buffer in buffers:
        bits = b.or_(bits, b.ptrtoint(ctx.buffer_pointer(buffer), I64))
        least = -(-STREAM_BYTES // buffer.dtype.itemsize)
        size = ctx.int_expr(b, buffer.size, {})
        runs = b.and_(runs, b.icmp_signed(">=", size, i64(least)))
    return b.and_(runs, b.icmp_unsigned("==", b.and_(bits, i64(ALIGN - 1)), i64(0)))
