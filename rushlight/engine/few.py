"""What a look at one value waits for, when that is little: seen at once, without a recording.

In: the node that is looked at. Out: its roots, and a key that says as much as a recording of them
and what may be overwritten (signature.py, realize.py), so that one search finds the program; or
None, where more waits, or something that only the general way knows. Always true: equal keys mean
recordings that are equal but for the numbers.
"""

from __future__ import annotations

from operator import attrgetter
from sys import getrefcount
from typing import Any
from weakref import ReferenceType

import numpy as np

from rushlight.engine.live import FREE, Ref
from rushlight.engine.program import Layout, Program
from rushlight.ir.node import Node

# Longer keys cost as much as a recording. How many holders are looked at, and keys kept.
MOST_NODES = 12
MOST_WAITING = 32
MOST_KNOWN = 512


class KnownFew:
    """The program of a key; None for one that may fail."""

    __slots__ = ("program", "values", "layout")

    def __init__(self, program: Program, values: np.ndarray, layout: Layout) -> None:
        self.values, self.layout = values, layout
        self.program = None if program.may_fail else program


def keep(table: dict[tuple, KnownFew], key: tuple, known: KnownFew) -> KnownFew:
    """From now on this is the program of the key."""
    if len(table) >= MOST_KNOWN:
        table.clear()
    table[key] = known
    return known


def few_roots(wanted: Node, waiting: list[ReferenceType[Ref]]) -> list[Node] | None:
    """All that a flush computes: this node, and what the holders wait for."""
    if wanted.leaf or len(waiting) > MOST_WAITING:
        return None
    roots, saved = [wanted], []
    for weak in waiting:
        ref = weak()
        if ref is None:
            continue
        node = ref.node
        if node is wanted or node.leaf:
            continue
        if node.pairs:
            return None
        if ref.saved:
            saved.append(node)
        elif node not in roots:
            roots.append(node)
    for node in saved:  # not to compute, but what it is made of may have to stay
        if node not in roots:
            return None
    roots.sort(key=_serial)
    return roots


def describe(roots: list[Node], family: Any) -> tuple[tuple, list, list, list[int]] | None:
    """The key of these roots, memory of the inputs, numbers, and which inputs nobody needs later.
    None: too many nodes. `family`: of the programs that are wanted."""
    nodes = roots.copy()
    for node in nodes:  # they become more meanwhile
        for source in node.src:
            if not source.leaf and source not in nodes:
                nodes.append(source)
        if len(nodes) > MOST_NODES:
            return None
    nodes.sort(key=_serial)
    key, inputs, numbers, free = [family], [], [], []
    places: dict[Node, int] = {}
    for node in nodes:
        for source in node.src:
            if source not in places:
                places[source] = len(places)
                if source.leaf == "buffer":
                    key += (source.shape, source.dtype)
                    # As `find_donated` says of a leaf that no saved value needs.
                    if (
                        getrefcount(source.token) <= FREE
                        and not source.buffer.foreign and getrefcount(source.buffer) == 2
                    ):  # fmt: skip
                        key.append("free")
                        free.append(len(inputs))
                    inputs.append(source.buffer)
                elif source.leaf == "scalar":
                    key.append(source.dtype)
                    numbers.append(source.attrs[0])
                else:
                    key.append(source)
            key.append(places[source])
        key.append(node.meta)
        places[node] = len(places)
    for node in roots:
        key.append(places[node])
    return tuple(key), inputs, numbers, free


_serial = attrgetter("serial")
