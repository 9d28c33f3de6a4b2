"""Memory of storages that a program writes over.

In: the nodes that storages hold, and which of them are to be overwritten. Out: copies of those
whose memory is seen by somebody else; new values in their places. Always true: the counts of
references say who sees a node or its memory, so memory is overwritten only where its storage alone
has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from rushlight.ir.node import Node, buffer_node
from rushlight.runtime.buffer import Buffer, allocate

NO_COPIES: dict[int, Buffer] = {}


class Overwritten:
    """`positions`: of the nodes in the lists that `copies` gets."""

    def __init__(self, positions: Sequence[int]) -> None:
        self.positions = sorted(positions)

    def copies(self, nodes: list[Node]) -> dict[int, Buffer]:
        """Memory that is seen elsewhere is copied; gives position -> copy. The list is the only
        holder of the nodes besides their storages."""
        seen = []
        for position in self.positions:
            node = nodes[position]
            buffer = node.buffer
            # Held by the storage and the list or by the node; by a name here and the look itself.
            alone = getrefcount(nodes[position]) == 4 and getrefcount(node.buffer) == 3
            if not alone or buffer.foreign:
                seen.append(position)
        return {i: _copied(nodes[i].buffer) for i in seen} if seen else NO_COPIES


def put(storage: Any, old: Node, new: Buffer | Node) -> None:
    """A storage gets a new value."""
    if isinstance(new, Buffer):
        new = buffer_node(new, old.shape, old.dtype)
    shown = storage.foreign
    if shown is None:
        storage.hold(new)
    else:
        shown[...] = new.buffer.view(old.dtype, old.shape)


def _copied(buffer: Buffer) -> Buffer:
    made = allocate(buffer.nbytes)
    made.device = buffer.device
    np.asarray(made)[...] = np.asarray(buffer)
    return made
