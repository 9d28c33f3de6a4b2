"""What a node reads, and where, when it is evaluated at given coordinates.

In: a node and coordinates. Out: every point or input below it with the coordinates of the read.
"""

from __future__ import annotations

from typing import Any

from rushlight.compiler.fuse.materialize import Points
from rushlight.compiler.tile.access import Access
from rushlight.ir import scalar as s
from rushlight.ir.node import Node


def reads_of(node: Node, where: tuple, points: Points) -> list[tuple[Node, tuple]]:
    """Trial evaluation that only notes which points are read, and at which coordinates."""
    reads: list[tuple[Node, tuple]] = []

    def leaf(here: Node, at: tuple, mask: Any) -> s.E | None:
        if here.leaf != "buffer" and (here not in points or here is node):
            return None
        reads.append((here, tuple(at)))
        return s.param(f"r{len(reads)}", here.dtype)

    access = Access(leaf, lambda n: s.param("n", n.dtype), lambda n: 0)
    assert node.op is not None
    if node.op.kind == "reduce":
        access.value(node.src[0], where)
    else:
        access.value(node, where)
    return reads


def same_place(a: tuple, b: tuple, node: Node) -> bool:
    """Equal coordinates of a node; along a dimension of size 1 there is one place only."""
    return a == b or all(x == y or size == 1 for x, y, size in zip(a, b, node.shape, strict=True))
