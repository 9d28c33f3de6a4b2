"""Kernels of independent elements: elementwise chains, generated values, gathers, cat, updates."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.compiler.tile.coords import linear, strides_of
from rushlight.compiler.tile.ir import AnyGrid, Axis, Store
from rushlight.compiler.tile.kernel import Kernel, KernelBuilder, map_grids
from rushlight.compiler.tile.transform import Substitution
from rushlight.ir.node import Node
from rushlight.ir.scalar import E, topological
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


def piece_of(
    builder: KernelBuilder,
    number: int,
    source: Node,
    node: Node,
    origin: Sequence[int | Expr],
    step: Sequence[int],
) -> list[AnyGrid]:
    """node[origin + i*step] = source[i] for all i."""
    axes, place, value = _piece_parts(builder, number, source, node, origin, step)
    return _piece_grids(builder, axes, Store(builder.output(node), place, value))


def _piece_parts(
    builder: KernelBuilder,
    number: int,
    source: Node,
    node: Node,
    origin: Sequence[int | Expr],
    step: Sequence[int],
) -> tuple[list[Axis], int | Expr, E]:
    """(axes, offset in the node, value) of node[origin + i*step] = source[i]."""
    named = [Axis(f"g{number}d{i}", n) for i, n in enumerate(source.shape)]
    axes = [axis for axis in named if axis.extent != 1]
    # No variable for what is always 0: equal places then look equal.
    at = tuple(0 if axis.extent == 1 else axis.var for axis in named)
    place = [o + i * k for o, i, k in zip(origin, at, step, strict=True)]
    return axes, linear(place, strides_of(node.shape)), builder.access().value(source, at)


def _piece_grids(builder: KernelBuilder, axes: Sequence[Axis], store: Store) -> list[AnyGrid]:
    grids, _ = map_grids(axes, [store], builder.hints, count=False)
    return list(grids)


def _cat_grids(builder: KernelBuilder, node: Node) -> list[AnyGrid]:
    dim = node.attrs[0]
    offset: int | Expr = 0
    grids: list[AnyGrid] = []
    for number, source in enumerate(node.src):
        origin = [offset if d == dim else 0 for d in range(node.ndim)]
        # Empty pieces are left out, but a program without any grid would be none.
        if 0 not in source.shape or (not grids and source is node.src[-1]):
            grids += piece_of(builder, number, source, node, origin, [1] * node.ndim)
        offset = offset + source.shape[dim]
    return grids


def _update_grids(builder: KernelBuilder, node: Node, donatable: frozenset[Node]) -> list[AnyGrid]:
    """In place where the base may be overwritten and an element reads no other one of it."""
    base, update = node.src
    region = (update, node, node.attr("start"), node.attr("step"))
    axes, place, value = _piece_parts(builder, 1, *region)
    if base not in donatable or not _reads_only(builder, base, value, place):
        grids = piece_of(builder, 0, base, node, [0] * node.ndim, [1] * node.ndim)
        return grids + _piece_grids(builder, axes, Store(builder.output(node), place, value))
    dest = builder.output(node, "inout")
    store = Store(dest, place, value)
    read = builder.buffers.pop(base, None)
    if read is not None:
        store = Substitution({}, buffers={read: dest}).store(store)
    builder.inplace.append((node, base))
    return _piece_grids(builder, axes, store)


def _reads_only(builder: KernelBuilder, base: Node, value: E, place: int | Expr) -> bool:
    """Is `place` the only offset at which the value reads the base?"""
    buffer = builder.buffers.get(base)
    loads = [e.meta for e in topological([value]) if e.op == "load"]
    return all(at == place for source, at in loads if source is buffer)
