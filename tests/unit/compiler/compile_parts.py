"""The first passes alone: graph -> primitive nodes -> points -> groups."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.autograd.graph import reverse
from rushlight.base.dtypes import DType, float32
from rushlight.compiler.fuse.group import Group
from rushlight.compiler.fuse.grouping import group_points
from rushlight.compiler.fuse.materialize import Points, choose_points
from rushlight.compiler.graph.decompose import decompose
from rushlight.compiler.pipeline import separate_roots
from rushlight.compiler.sizes import Hints
from rushlight.ir.node import Node, buffer_node

NO_HINTS = Hints({})


def leaf(*shape: int, dtype: DType = float32) -> Node:
    return buffer_node(None, shape, dtype)


def primitive(*roots: Node) -> list[Node]:
    return decompose(list(roots))


def points_of(*roots: Node) -> Points:
    return choose_points(separate_roots(primitive(*roots)), NO_HINTS)


def groups_of(*roots: Node) -> list[Group]:
    return group_points(points_of(*roots), NO_HINTS)


def gradients(out: Node, inputs: Sequence[Node]) -> list[Node]:
    """Of the sum of out * cotangent."""
    cotangent = leaf(*out.shape, dtype=out.dtype)
    found = reverse([out], [cotangent], list(inputs), [True] * len(inputs))
    return [g for g in found if g is not None]
