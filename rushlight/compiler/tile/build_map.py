"""Kernels of independent elements: elementwise chains, generated values, gathers, cat, updates."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.compiler.tile.coords import linear, strides_of
from rushlight.compiler.tile.ir import AnyGrid, Axis, Store
from rushlight.compiler.tile.kernel import Kernel, KernelBuilder, map_grids
from rushlight.ir.node import Node
from rushlight.ir.symint import Expr


def build_map(builder: KernelBuilder) -> Kernel:
    """One Map that stores every member somebody outside reads."""
    group = builder.group
    access = builder.access()
    stores = []
    for member in group.members:
        at = group.at[member]
        # Every member is evaluated, in order, so that long chains nest no deeper than one member.
        if member in builder.outputs:
            stores += builder.stores(access, member, at)
        else:
            access.value(member, at)
    axes = [Axis(f"d{i}", n) for i, n in enumerate(group.shape)]
    grids, numel = map_grids(axes, stores, builder.hints)
    return builder.finish(grids, numel)


def build_pieces(builder: KernelBuilder, donatable: frozenset[Node]) -> Kernel:
    """cat and slice_scatter: a map per piece, so that no element tests where it belongs."""
    (node,) = builder.group.members
    if node.name == "cat":
        grids = _cat_grids(builder, node)
    else:
        grids = _update_grids(builder, node, donatable)
    return builder.finish(grids)


def _piece(
    builder: KernelBuilder,
    number: int,
    source: Node,
    node: Node,
    origin: Sequence[int | Expr],
    step: Sequence[int],
) -> list[AnyGrid]:
    """node[origin + i*step] = source[i] for all i."""
    axes = [Axis(f"g{number}d{i}", n) for i, n in enumerate(source.shape)]
    at = tuple(axis.var for axis in axes)
    place = [o + i * k for o, i, k in zip(origin, at, step, strict=True)]
    value = builder.access().value(source, at)
    store = Store(builder.output(node), linear(place, strides_of(node.shape)), value)
    grids, _ = map_grids(axes, [store], builder.hints, count=False)
    return list(grids)


def _cat_grids(builder: KernelBuilder, node: Node) -> list[AnyGrid]:
    dim = node.attrs[0]
    offset: int | Expr = 0
    grids: list[AnyGrid] = []
    for number, source in enumerate(node.src):
        origin = [offset if d == dim else 0 for d in range(node.ndim)]
        if 0 not in source.shape:
            grids += _piece(builder, number, source, node, origin, [1] * node.ndim)
        offset = offset + source.shape[dim]
    return grids


def _update_grids(builder: KernelBuilder, node: Node, donatable: frozenset[Node]) -> list[AnyGrid]:
    base, update = node.src
    grids: list[AnyGrid] = []
    if base in donatable:
        builder.output(node, "inout")
        builder.inplace.append((node, base))
    else:
        grids += _piece(builder, 0, base, node, [0] * node.ndim, [1] * node.ndim)
    grids += _piece(builder, 1, update, node, node.attr("start"), node.attr("step"))
    return grids
