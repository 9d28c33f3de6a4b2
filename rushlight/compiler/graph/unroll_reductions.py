"""A reduction of a few elements is written out, so that a kernel's lanes run over its results.

before   %2 = reduce_max(%1 : f32[8, 64, 2], [2])
after    %2 = maximum(%1[:, :, 0], %1[:, :, 1])     (slices are views, nothing is copied)

Bits are those of the reduction: sums start from +0 and are joined as the tile language joins its
partials; of zeros with different signs +0 is the maximum and -0 the minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as combinations
from math import prod

from rushlight.base.dtypes import DType, find_dtype, int64
from rushlight.compiler.decisions import SILENT, Trace, defined_at
from rushlight.compiler.graph.simplify import simplify
from rushlight.compiler.tile.ir import PARTIALS
from rushlight.ir.node import Node, const_node, topological, with_sources
from rushlight.ops import (
    add,
    bitcast,
    bitwise_and,
    bitwise_or,
    cast,
    eq,
    expand,
    gt,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    lt,
    maximum,
    minimum,
    mul,
    reshape,
    slice_,
    where,
)

MAX_ELEMENTS = 16
KINDS = {
    "reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_any", "reduce_all",
    "argmax_", "argmin_",
}  # fmt: skip
# Row by row their order of comparisons leaves no lanes: written out also where it is spread again.
POSITIONS = ("argmax_", "argmin_")


def unroll_reductions(
    roots: Sequence[Node], came_from: dict[Node, Node] | None = None, trace: Trace = SILENT
) -> list[Node]:
    """The same values; `came_from` gets new node -> old node."""
    order = topological(list(roots))
    spread = _spread_again(order)
    new: dict[Node, Node] = {}
    for node in order:
        here = new[node] = with_sources(node, tuple(new[s] for s in node.src))
        if _is_small(node) and (node not in spread or node.name in POSITIONS):
            new[node] = _written_out(here)
            trace.rewrote("unroll_reductions", defined_at(_written_out), here, new[node])
        if came_from is not None and new[node] is not node:
            came_from.setdefault(new[node], node)
    return [new[root] for root in roots]


def _is_small(node: Node) -> bool:
    if node.name not in KINDS:
        return False
    sizes = [node.src[0].shape[d] for d in node.attrs[0]]
    return all(isinstance(n, int) for n in sizes) and 0 < prod(sizes) <= MAX_ELEMENTS  # type: ignore[arg-type]


def _spread_again(order: Sequence[Node]) -> set[Node]:
    """Values that every element of a larger value reads (row maxima, means): a reduction among
    them is better off in one kernel with that value, row by row."""
    spread: set[Node] = set()
    for node in reversed(order):
        kind = "" if node.op is None else node.op.kind
        if kind not in ("movement", "elementwise"):
            continue
        for source in node.src:
            broadcast = kind == "elementwise" and source.shape not in ((), node.shape)
            if node in spread or broadcast or node.name == "expand":
                spread.add(source)
    return spread


def _written_out(node: Node) -> Node:
    source, dims = node.src[0], node.attrs[0]
    elements = [_element(source, dims, at, node.shape) for at in _positions(source, dims)]
    if node.name in POSITIONS:
        return _position_of_extreme(elements, node.name == "argmax_")
    wide = node.dtype.compute
    elements = [e if e.dtype is wide else cast(e, wide) for e in elements]
    if node.name in ("reduce_sum", "reduce_prod"):
        join, identity = (add, 0) if node.name == "reduce_sum" else (mul, 1)
        elements = [join(const_node(identity, wide), e) for e in elements]
        total = _halves(join, elements)
    else:
        total = elements[0]
        for element in elements[1:]:
            total = _JOIN[node.name](total, element)
    return total if total.dtype is node.dtype else cast(total, node.dtype)


def _positions(source: Node, dims: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(combinations(*(range(source.shape[d]) for d in dims)))  # type: ignore[arg-type]


def _element(source: Node, dims: tuple[int, ...], at: tuple[int, ...], shape: tuple) -> Node:
    """The source with the reduced dims at one position, as a view."""
    start, length = [0] * source.ndim, list(source.shape)
    for dim, position in zip(dims, at, strict=True):
        start[dim], length[dim] = position, 1
    piece = slice_(source, tuple(start), tuple(length), (1,) * source.ndim)
    return simplify(reshape(simplify(piece), shape))


def _halves(join: Callable[[Node, Node], Node], elements: list[Node]) -> Node:
    """The tree over halves of PARTIALS partials, of which only the first few hold anything."""
    half = PARTIALS // 2
    while half:
        low, high = elements[:half], elements[half:]
        elements = [join(a, high[i]) if i < len(high) else a for i, a in enumerate(low)]
        half //= 2
    return elements[0]


def _extreme(pick: Callable[[Node, Node], Node], bits: Callable[[Node, Node], Node]):  # noqa: ANN202
    def join(a: Node, b: Node) -> Node:
        best = pick(a, b)
        if not a.dtype.is_floating_point:
            return best
        twin = find_dtype(f"int{8 * a.dtype.itemsize}")
        both = bitcast(bits(bitcast(a, twin), bitcast(b, twin)), a.dtype)
        return where(eq(a, b), both, best)

    return join


_JOIN: dict[str, Callable[[Node, Node], Node]] = {
    "reduce_max": _extreme(maximum, bitwise_and),
    "reduce_min": _extreme(minimum, bitwise_or),
    "reduce_any": logical_or,
    "reduce_all": logical_and,
}


def _position_of_extreme(elements: list[Node], is_max: bool) -> Node:
    """Lowest position among the extremes; the first NaN wins."""
    compute: DType = elements[0].dtype.compute
    elements = [e if e.dtype is compute else cast(e, compute) for e in elements]
    best, position = elements[0], expand(const_node(0, int64), elements[0].shape)
    for number, element in enumerate(elements[1:], 1):
        better = (gt if is_max else lt)(element, best)
        if compute.is_floating_point:
            better = logical_and(logical_or(better, isnan(element)), logical_not(isnan(best)))
        position = where(better, const_node(number, int64), position)
        best = where(better, element, best)
    return position
