"""Stores. Of several at one point all values and masks come first, so that a store may go to memory
that another value is read from (see Map in compiler/tile/ir.py)."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir

from rushlight.backends.llvm import memory
from rushlight.backends.llvm.context import I1, I8, Env, KernelContext
from rushlight.backends.llvm.lanes import Cache, Lanes
from rushlight.backends.llvm.ops import constant, splat, with_lanes
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import Store
from rushlight.ir.scalar import E


def emit_stores(
    ctx: KernelContext,
    builder: ir.IRBuilder,
    stores: Sequence[Store],
    env: Env,
    lanes: Lanes,
    known: dict[E, ir.Value],
) -> None:
    """`known`: values that are already there (such as scalar.acc)."""
    emitter = ValueEmitter(ctx, builder, env, lanes, known)
    put_all(emitter, stores, [value_and_mask(emitter, store) for store in stores])


def emit_store(
    ctx: KernelContext,
    builder: ir.IRBuilder,
    store: Store,
    env: Env,
    lanes: Lanes,
    value: ir.Value,
    cache: Cache,
) -> None:
    """dest[at] = value where store.mask and the lanes' mask are true."""
    put(ValueEmitter(ctx, builder, env, lanes, cache), store, value)


def value_and_mask(emitter: ValueEmitter, store: Store) -> ir.Value:
    """What is stored, with all lanes; where is known then, too."""
    if store.mask is not None:
        emitter.value(store.mask)
    return emitter.full(store.value)


def put_all(emitter: ValueEmitter, stores: Sequence[Store], values: Sequence[ir.Value]) -> None:
    """Two stores that fill pairs of elements side by side are one."""
    n = 0
    while n < len(stores):
        if n + 1 < len(stores) and _fill_pairs(emitter, *stores[n : n + 2]):
            _put_pairs(emitter, stores[n], *values[n : n + 2])
            n += 2
        else:
            put(emitter, stores[n], values[n])
            n += 1


def _fill_pairs(emitter: ValueEmitter, first: Store, second: Store) -> bool:
    same = first.dest is second.dest and first.mask is second.mask
    if emitter.lanes.count == 1 or not same or second.at - first.at != 1:
        return False
    linear = emitter.linear(first.at)
    return linear.stride == 2 and linear.extra is None


def _put_pairs(emitter: ValueEmitter, store: Store, first: ir.Value, second: ir.Value) -> None:
    b, dtype, count = emitter.builder, store.dest.dtype, emitter.lanes.count
    mask = _mask(emitter, store)
    mask = mask if mask is None else memory.repeated(b, mask, 2)
    both = memory.shuffle(b, first, second, [n // 2 + n % 2 * count for n in range(2 * count)])
    place = emitter.pointer(store.dest, emitter.linear(store.at).base)
    memory.store_vector(b, _in_memory(b, both, store), place, dtype.itemsize, mask)


def put(emitter: ValueEmitter, store: Store, value: ir.Value) -> None:
    """Emit one store; `value` has all lanes."""
    b, count, size = emitter.builder, emitter.lanes.count, store.dest.dtype.itemsize
    mask = _mask(emitter, store)
    linear = emitter.linear(store.at)
    value = _in_memory(b, value, store)
    if count == 1 and mask is None:
        b.store(value, emitter.pointer(store.dest, linear.base), align=size)
        return
    if count == 1:
        value, mask = (splat(b, v, 1) for v in (value, mask))
    if count == 1 or (linear.stride == 1 and linear.extra is None):
        place = emitter.pointer(store.dest, linear.base)
        if mask is None and store.dest in emitter.ctx.streamed:
            memory.stream_vector(b, value, place, count * size)
        else:
            memory.store_vector(b, value, place, size, mask)
        return
    everything = constant(ir.VectorType(I1, count), 1)
    places = emitter.pointers(store.dest, linear)
    memory.scatter(b, value, places, size, everything if mask is None else mask)


def _mask(emitter: ValueEmitter, store: Store) -> ir.Value | None:
    return emitter.with_lane_mask(None if store.mask is None else emitter.full(store.mask))


def _in_memory(b: ir.IRBuilder, value: ir.Value, store: Store) -> ir.Value:
    return b.zext(value, with_lanes(I8, value.type)) if store.dest.dtype.kind == "bool" else value
