"""Is an index in range whatever the values are?

In: an index node and the size it must stay below. Out: True only when every element is at least 0
and below it by construction: positions of a sort or an extreme, counted places, and what is picked
or moved from such. Then nothing has to be checked while the program runs.
"""

from __future__ import annotations

from rushlight.ir.node import Node
from rushlight.ir.symint import Expr, is_less
from rushlight.ir.symint_math import product

MOVES = frozenset(("reshape", "permute", "expand", "slice_", "flip", "gather_nd"))
CHOICES = {"where": 1, "cat": 0}  # name -> the first operand that is a value
MAX_DEPTH = 64


def is_in_range(index: Node, size: int | Expr, depth: int = MAX_DEPTH) -> bool:
    """0 <= every element of `index` < size."""
    if 0 in index.shape:
        return True
    while index.name in MOVES:
        index = index.src[0]
    if index.leaf == "const":
        return isinstance(size, int) and 0 <= index.attrs[0] < size
    if index.leaf or depth == 0:
        return False
    if index.name == "cast":
        source = index.src[0]
        narrows = source.dtype.is_floating_point or index.dtype.itemsize < source.dtype.itemsize
        return not narrows and is_in_range(source, size, depth - 1)
    first = CHOICES.get(index.name)
    if first is not None:
        return all(is_in_range(source, size, depth - 1) for source in index.src[first:])
    count = _count(index)
    return count is not None and is_less(count - 1, size)


def _count(node: Node) -> int | Expr | None:
    """The node holds positions 0 <= p < count; None for other nodes."""
    assert node.op is not None
    if node.name == "iota":  # of a narrow dtype it would wrap around
        return node.shape[0] if node.dtype.kind == "int" and node.dtype.itemsize >= 4 else None
    if node.op.kind == "sort" or node.name in ("scan_argmax", "scan_argmin"):
        return node.src[0].shape[node.attr("dim")]
    if node.name in ("argmax_", "argmin_"):
        return product([node.src[0].shape[d] for d in node.attr("dims")])
    return None
