"""Values computed early: with the contraction that they are made of, not where they are read.

before   dot h; y = h * erf(h);                      later g * slope(h, erf(h))   kept: h, erf(h)
after    dot h; y = h * erf(h); s = slope(h, erf(h)); later g * s                 kept: s

In: all nodes in order, who reads them, which are points so far. Out: nodes that become points, too;
they join the contraction's kernel (grouping.py). Always true: fewer bytes are kept than before, and
nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rushlight.compiler.sizes import Hints
from rushlight.ir.node import Node, nearest_below

# A leaf of such a part of the contraction's size costs nothing to read there (a bias).
SMALL_PART = 16
Readers = Mapping[Node, Sequence[Node]]
Homes = Mapping[Node, Node]


def early_points(
    order: Sequence[Node], readers: Readers, reasons: Mapping[Node, str], hints: Hints
) -> list[Node]:
    """The elementwise nodes for whose place the places of more bytes are spared."""
    homes = _find_homes(order, hints)
    found: list[Node] = []
    for node, home in homes.items():
        if node in reasons or node is home or node.name == "reshape":
            continue
        if hints.numel(node) != hints.numel(home):
            continue
        if all(homes.get(reader) is home for reader in readers[node]):
            continue
        below = nearest_below(node, reasons.__contains__)
        spared = [p for p in below if not _is_kept_anyway(p, node, homes, reasons, readers)]
        if sum(p.dtype.itemsize for p in spared) > node.dtype.itemsize:
            found.append(node)
    return found


def _find_homes(order: Sequence[Node], hints: Hints) -> Homes:
    """Node -> the one contraction of whose elements, and of small leaves, it is made."""
    homes: dict[Node, Node] = {}
    largest: dict[Node, int] = {}  # of nodes made of leaves alone: elements of the largest leaf
    for node in order:
        if node.op is None:
            largest[node] = hints.numel(node) if node.leaf == "buffer" else 1
        elif node.op.kind == "dot":
            homes[node] = node
        elif node.op.kind in ("elementwise", "movement", "iota"):
            leaves = [source for source in node.src if source in largest]
            size = max((largest[source] for source in leaves), default=1)
            if len(leaves) == len(node.src):
                largest[node] = size
                continue
            made_of = {homes.get(source) for source in node.src if source not in largest}
            home = made_of.pop()
            if made_of or home is None or size * SMALL_PART > hints.numel(home):
                continue
            if node.op.kind == "elementwise" or node.name == "reshape":
                homes[node] = home
    return homes


def _is_kept_anyway(
    point: Node, node: Node, homes: Homes, reasons: Mapping[Node, str], readers: Readers
) -> bool:
    """Is `point` a result, or read in another kernel that does not read it for `node`?"""
    home, stack = homes.get(point), [point]
    if home is None or reasons[point] == "output":
        return True
    while stack:
        for reader in readers[stack.pop()]:
            if homes.get(reader) is not home:
                return True
            if reader is not node and reader not in reasons:
                stack.append(reader)
    return False
