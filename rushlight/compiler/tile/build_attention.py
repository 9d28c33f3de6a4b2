"""flash_attention nodes -> AttentionGrid.

In: a group whose first member is the attention; the others work on elements of its output, or are
its flash_lse. A flash_lse may also stand alone. Out: a kernel. The mask becomes the score hole; a
causal one also bounds the keys, so that blocks that no query of a group sees are not visited.
"""

from __future__ import annotations

from rushlight.base.dtypes import bool_
from rushlight.compiler.tile.access import Access, select
from rushlight.compiler.tile.coords import linear, strides_of
from rushlight.compiler.tile.ir import AttentionGrid, Axis, Store
from rushlight.compiler.tile.kernel import Kernel, KernelBuilder
from rushlight.ir import scalar as s
from rushlight.ir.node import Node
from rushlight.ir.opdef import Call
from rushlight.ir.scalar import E

MINUS_INFINITY = float("-inf")


def build_attention(builder: KernelBuilder) -> Kernel:
    first = builder.group.members[0]
    assert first.op is not None
    call = first.op.call_of(first)
    dtype = first.dtype.compute
    # The lse alone: no output, so no values are read.
    shape = (*first.shape, 0) if first.name == "flash_lse" else first.shape
    *lead, length, width = (Axis(f"d{i}", n) for i, n in enumerate(shape))
    keys, features = (Axis(n, size) for n, size in zip("se", call["key"].shape[-2:], strict=True))
    batch = tuple(lead)
    operands = builder.access()
    q = _at(operands, call["query"], batch, length, features)
    k = _at(operands, call["key"], batch, keys, features)
    v = s.const(0, dtype)
    if first.name != "flash_lse":
        v = _at(operands, call["value"], batch, keys, width)
    score = _score(operands, call, (batch, length, keys), s.acc(dtype))
    stop = length.var + 1 if call["is_causal"] else keys.extent
    acc = s.acc(dtype)
    grid = AttentionGrid(
        batch, length, keys, features, width, q, k, v, score, 0, stop, s.exp(acc), s.log(acc),
        dtype, *_stores(builder, acc),
    )  # fmt: skip
    return builder.finish([grid])


def _stores(builder: KernelBuilder, acc: E) -> tuple[tuple[Store, ...], tuple[Store, ...]]:
    """Of the output and what is made of its elements, and of the lse."""
    group = builder.group
    first = group.members[0]
    result = s.cast(acc, first.dtype)

    def leaf(here: Node, at: tuple, mask: E | None) -> E | None:
        return result if here is first else builder.read(here, at, mask)

    epilogue = builder.access(leaf)
    stores, lse_stores = [], []
    for member in group.members:
        at, is_lse = group.at[member], member.name == "flash_lse"
        if member not in builder.outputs:
            continue
        if is_lse:
            place = linear(at, strides_of(member.shape))
            lse_stores.append(Store(builder.output(member), place, s.cast(acc, member.dtype)))
        else:
            stores += builder.stores(epilogue, member, at)
    return tuple(stores), tuple(lse_stores)


def _score(operands: Access, call: Call, axes: tuple, score: E) -> E:
    batch, length, keys = axes
    outside = s.const(MINUS_INFINITY, score.dtype)
    if call["is_causal"]:
        score = select(s.le(s.index(keys.var), s.index(length.var)), score, outside)
    if call["mask"] is None:
        return score
    mask = _at(operands, call["mask"], batch, length, keys)
    if mask.dtype is bool_:
        return select(mask, score, outside)
    return s.add(score, s.cast(mask, score.dtype))


def _at(operands: Access, node: Node, batch: tuple[Axis, ...], *last: Axis) -> E:
    """The element at these axes; dimensions are aligned at the end, and those of size 1 repeat."""
    axes = (*batch, *last)[len(batch) + len(last) - len(node.shape) :]
    at = tuple(0 if n == 1 else a.var for n, a in zip(node.shape, axes, strict=True))
    return operands.value(node, at)
