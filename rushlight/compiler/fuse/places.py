"""Where a kernel evaluates a node, and which points are read from there.

In: a node and its coordinates in the axes of a kernel. Out: the points and buffers read, each with
the coordinates of the element. Nothing is built: the evaluation is only tried.
"""

from __future__ import annotations

from typing import Any

from rushlight.compiler.fuse.materialize import Points
from rushlight.compiler.tile.access import Access
from rushlight.compiler.tile.coords import broadcast_coords
from rushlight.ir import scalar as s
from rushlight.ir.node import Node
from rushlight.ir.symint import Expr


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
    elif node.op.kind == "interleave":
        for source in node.src:
            access.value(source, broadcast_coords(source.shape, where))
    else:
        access.value(node, where)
    return reads


def same_place(a: tuple, b: tuple, node: Node) -> bool:
    """Equal coordinates of a node; along a dimension of size 1 there is one place only."""
    if a == b:
        return True
    # An interleaved value lies where its parts do: nobody reads a part of it there.
    return len(a) == len(b) and all(
        x == y or size == 1 for x, y, size in zip(a, b, node.shape, strict=True)
    )


def place_shape(node: Node) -> tuple[int | Expr, ...]:
    """The shape that a node's coordinates in its group are for."""
    is_interleaved = node.op is not None and node.op.kind == "interleave"
    return node.shape[:-1] if is_interleaved else node.shape
