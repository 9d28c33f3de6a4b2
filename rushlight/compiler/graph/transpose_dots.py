"""A transposed product is computed transposed.

before   %3 = permute(dot(%1, %2), [1, 0])
after    %3 = dot(permute(%2, [1, 0]), permute(%1, [1, 0]))

Only where nobody else reads the product; a reshape of its batch dims may lie between. The bits are
equal: every element is the same chain of fused multiply-adds over ascending k, and a product does
not depend on the order of its factors.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.compiler.decisions import SILENT, Trace, defined_at
from rushlight.compiler.graph.simplify import simplify
from rushlight.ir.node import Node, topological, with_sources
from rushlight.ops import dot, permute, reshape


def transpose_dots(
    roots: Sequence[Node], came_from: dict[Node, Node] | None = None, trace: Trace = SILENT
) -> list[Node]:
    """The same values; `came_from` gets new node -> old node."""
    order = topological(list(roots))
    readers = _count_readers(order, roots)
    new: dict[Node, Node] = {}
    for node in order:
        product = _transposed_dot(node, readers)
        if product is not None:
            left, right = (new[s] for s in product.src)
            new[node] = simplify(reshape(dot(_swap(right), _swap(left)), node.shape))
            trace.rewrote("transpose_dots", defined_at(transpose_dots), node, new[node])
        else:
            new[node] = with_sources(node, tuple(new[s] for s in node.src))
        if came_from is not None and new[node] is not node:
            came_from.setdefault(new[node], node)
    return [new[root] for root in roots]


def _count_readers(order: Sequence[Node], roots: Sequence[Node]) -> dict[Node, int]:
    readers = dict.fromkeys(order, 0)
    for root in roots:
        readers[root] += 1
    for node in order:
        for source in node.src:
            readers[source] += 1
    return readers


def _transposed_dot(node: Node, readers: dict[Node, int]) -> Node | None:
    """The dot that a permute of the last two dims reads, perhaps with its batch dims reshaped."""
    if node.name != "permute" or readers[node.src[0]] != 1:
        return None
    dims, source = node.attrs[0], node.src[0]
    rank = len(dims)
    if dims != (*range(rank - 2), rank - 1, rank - 2):
        return None
    if source.name == "reshape" and source.src[0].shape[-2:] == source.shape[-2:]:
        source = source.src[0]
    return source if source.name == "dot" and readers[source] == 1 else None


def _swap(node: Node) -> Node:
    rank = node.ndim
    return simplify(permute(node, (*range(rank - 2), rank - 1, rank - 2)))
