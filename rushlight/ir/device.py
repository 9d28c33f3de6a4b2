"""Where a value lies: the name of the device of a node.

In: a node. Out: the type of its device, or None where nothing says it (a graph of numbers and
generated values alone, which may be computed anywhere). Always true: an op computes where its
operands are; only a record with an attribute `device` moves a value.
"""

from __future__ import annotations

import weakref

from rushlight.ir.node import Node, topological

_KNOWN: weakref.WeakKeyDictionary[Node, str] = weakref.WeakKeyDictionary()


def device_of(node: Node) -> str | None:
    if node.leaf:
        if node.leaf != "buffer":
            return None
        if node.buffer is None:
            return _KNOWN.get(node, "cpu")
        return getattr(node.buffer, "device", "cpu")
    found = _KNOWN.get(node)
    if found is None:
        found = _find(node)
        if found is not None:
            _KNOWN[node] = found
    return found


def put_on(leaf: Node, place: str | None) -> None:
    """Say where the value is that a leaf without memory stands for."""
    if place not in (None, "cpu"):
        _KNOWN[leaf] = place


def _find(node: Node) -> str | None:
    """A number in the memory of the CPU goes with tensors of any device."""
    found = None
    for here in topological([node], stop=moves):
        if moves(here):
            place = here.attr("device")
        elif here.leaf == "buffer":
            place = device_of(here)
        else:
            continue
        if place != "cpu":
            return place
        found = place
    return found


def moves(node: Node) -> bool:
    """Does the node put a value on a device, whatever its operand is on?"""
    return node.op is not None and "device" in node.op.attr_index
