"""Symbolic sizes -> numbers: the graph as it was when the program was first seen.

before   %2 = sum(%1: f32[s0, 8])      after   %2 = sum(%1: f32[4, 8])      with hints s0 = 4

For checks and interpretation; nothing that is compiled goes through here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.compiler.given import NumberSlot
from rushlight.ir.node import Node, buffer_node, make_node, scalar_node, topological
from rushlight.ir.symint import Expr

# A size -> what stands for it: `Hints`, or a function that leaves sizes as they are.
SizeOf = Callable[["int | Expr"], "int | Expr"]


def concretize(
    roots: Sequence[Node], hints: SizeOf, numbers: Sequence[Any] | None = None
) -> dict[Node, Node]:
    """Every node that the roots need -> its form with numbers for sizes.

    `numbers`: values of the program's scalar inputs (1 each when they are not known).
    """
    new: dict[Node, Node] = {}
    for node in topological(list(roots)):
        shape = tuple(hints(size) for size in node.shape)
        if node.leaf == "buffer":
            new[node] = buffer_node(node.buffer, shape, node.dtype)
        elif node.leaf == "scalar":
            slot = node.attrs[0]
            if isinstance(slot, NumberSlot):
                slot = 1 if numbers is None else numbers[slot.index]
            new[node] = scalar_node(slot, node.dtype)
        elif node.leaf:
            new[node] = node
        else:
            assert node.op is not None
            src = tuple(new[source] for source in node.src)
            attrs = tuple(_number(attr, hints) for attr in node.attrs)
            new[node] = make_node(node.op, src, attrs, shape, node.dtype)
    return new


def _number(attr: Any, hints: SizeOf) -> Any:
    if isinstance(attr, Expr):
        return hints(attr)
    if isinstance(attr, tuple):
        return tuple(_number(part, hints) for part in attr)
    return attr
