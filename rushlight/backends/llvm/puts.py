"""Several stores at one point: all values and masks first, so that a store may go to memory that
another value is read from (see Map in compiler/tile/ir.py)."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir

from rushlight.backends.llvm.context import Env, KernelContext
from rushlight.backends.llvm.values import Lanes, ValueEmitter
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
    values = [value_and_mask(emitter, store) for store in stores]
    for store, value in zip(stores, values, strict=True):
        emitter.store(store, value)


def value_and_mask(emitter: ValueEmitter, store: Store) -> ir.Value:
    """What is stored, with all lanes; where is known then, too."""
    if store.mask is not None:
        emitter.value(store.mask)
    return emitter.full(store.value)
