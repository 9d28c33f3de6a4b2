"""Loads and stores of vectors: plain, masked, gathered, scattered. A bool is a byte there."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir

from rushlight.backends.llvm.context import I1, I32
from rushlight.backends.llvm.ops import constant, intrinsic, suffix
from rushlight.base.dtypes import DType

CACHE_LINE = 64  # bytes


def any_lane(b: ir.IRBuilder, flags: ir.Value) -> ir.Value:
    """One i1: is any lane set?"""
    if not isinstance(flags.type, ir.VectorType):
        return flags
    bits = ir.IntType(flags.type.count)
    return b.icmp_unsigned("!=", b.bitcast(flags, bits), ir.Constant(bits, 0))


def from_memory(b: ir.IRBuilder, loaded: ir.Value, dtype: DType) -> ir.Value:
    """A value as it is computed with: a bool is a byte in memory and a bit here."""
    if dtype.kind != "bool":
        return loaded
    return b.icmp_unsigned("!=", loaded, constant(loaded.type, 0))


def load_vector(
    b: ir.IRBuilder,
    place: ir.Value,
    kind: ir.VectorType,
    dtype: DType,
    mask: ir.Value | None,
    other: ir.Value | None,
) -> ir.Value:
    """Neighbouring elements; masked ones are `other` (or 0)."""
    if mask is None:
        loaded = b.load(place, typ=kind, align=dtype.itemsize)
    else:
        name = f"llvm.masked.load.{suffix(kind)}.p0"
        args = [place, ir.Constant(I32, dtype.itemsize), mask, _other(b, kind, dtype, other)]
        loaded = intrinsic(b, name, kind, args)
    return from_memory(b, loaded, dtype)


def gather(
    b: ir.IRBuilder,
    places: ir.Value,
    kind: ir.VectorType,
    dtype: DType,
    mask: ir.Value | None,
    other: ir.Value | None,
) -> ir.Value:
    """Elements at any addresses; masked ones are `other` (or 0)."""
    name = f"llvm.masked.gather.{suffix(kind)}.{suffix(places.type)}"
    if mask is None:
        mask = constant(ir.VectorType(I1, kind.count), 1)
    args = [places, ir.Constant(I32, dtype.itemsize), mask, _other(b, kind, dtype, other)]
    loaded = intrinsic(b, name, kind, args)
    return from_memory(b, loaded, dtype)


def prefetch(b: ir.IRBuilder, place: ir.Value, to_write: bool = False, level: int = 1) -> None:
    """Ask for the cache line of an address, into cache `level`; any address may be asked for."""
    numbers = (int(to_write), 4 - level, 1)
    write, locality, data = (ir.Constant(I32, number) for number in numbers)
    intrinsic(b, "llvm.prefetch.p0", ir.VoidType(), [place, write, locality, data])


def _other(b: ir.IRBuilder, kind: ir.VectorType, dtype: DType, other: ir.Value | None) -> ir.Value:
    if other is None:
        return constant(kind, 0.0 if dtype.is_floating_point and dtype.itemsize > 2 else 0)
    return b.zext(other, kind) if dtype.kind == "bool" else other


def store_vector(
    b: ir.IRBuilder, value: ir.Value, place: ir.Value, align: int, mask: ir.Value | None
) -> None:
    """Neighbouring elements, in memory form."""
    if mask is None:
        b.store(value, place, align=align)
        return
    name = f"llvm.masked.store.{suffix(value.type)}.p0"
    intrinsic(b, name, ir.VoidType(), [value, place, ir.Constant(I32, align), mask])


def stream_vector(b: ir.IRBuilder, value: ir.Value, place: ir.Value, align: int) -> None:
    """Past the caches. align: all bytes of the vector."""
    store = b.store(value, place, align=align)
    store.set_metadata("nontemporal", b.module.add_metadata([ir.Constant(I32, 1)]))


def scatter(b: ir.IRBuilder, value: ir.Value, places: ir.Value, align: int, mask: ir.Value) -> None:
    name = f"llvm.masked.scatter.{suffix(value.type)}.{suffix(places.type)}"
    intrinsic(b, name, ir.VoidType(), [value, places, ir.Constant(I32, align), mask])


def shuffle(b: ir.IRBuilder, first: ir.Value, second: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """A vector of elements of two vectors of one length, one behind the other."""
    chosen = ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))
    return b.shuffle_vector(first, second, chosen)


def repeated(b: ir.IRBuilder, value: ir.Value, times: int) -> ir.Value:
    """Each lane so many times."""
    return shuffle(b, value, value, [n // times for n in range(times * value.type.count)])


def any_of(b: ir.IRBuilder, flags: ir.Value, times: int) -> ir.Value:
    """Of each `times` lanes side by side: is one set?"""
    count = flags.type.count
    parts = [shuffle(b, flags, flags, range(part, count, times)) for part in range(times)]
    found = parts[0]
    for part in parts[1:]:
        found = b.or_(found, part)
    return found
