"""Memory of storages that a program writes over.

In: the nodes that storages hold, and which of them are to be overwritten. Out: copies of those
whose memory is seen by somebody else; new values in their places. Always true: the counts of
references say who sees a node or its memory, so memory is overwritten only where its storage alone
has it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from rushlight.ir.node import Node, buffer_node
from rushlight.runtime.buffer import Buffer, allocate

_buffer = operator.attrgetter("buffer")
_foreign = operator.attrgetter("foreign")
NO_COPIES: dict[int, Buffer] = {}


class Overwritten:
    """`positions`: of the nodes in the lists that `copies` gets."""

    def __init__(self, positions: Sequence[int]) -> None:
        self.positions = sorted(positions)
        self.pick = _picker(self.positions)
        self.counts = [4] * len(self.positions)

    def copies(self, nodes: list[Node]) -> dict[int, Buffer]:
        """Memory that is seen elsewhere is copied; gives position -> copy. The list is the only
        holder of the nodes besides their storages."""
        if self.pick is None:
            return NO_COPIES
        mine = self.pick(nodes)
        memory = list(map(_buffer, mine))
        # Held by its storage, the list, the tuple and the call; by the node, the list and the call.
        if list(map(getrefcount, mine)) == self.counts:
            if list(map(getrefcount, memory)).count(3) == len(memory):
                if not any(map(_foreign, memory)):
                    return NO_COPIES
        del mine, memory
        return {
            i: _copied(nodes[i].buffer)
            for i in self.positions
            if nodes[i].buffer.foreign or getrefcount(nodes[i].buffer) > 2
            or getrefcount(nodes[i]) > 3
        }  # fmt: skip


def put(storage: Any, old: Node, new: Buffer | Node) -> None:
    """A storage gets a new value."""
    if isinstance(new, Buffer):
        new = buffer_node(new, old.shape, old.dtype)
    if storage.foreign is None:
        storage.hold(new)
    else:
        storage.foreign[...] = new.buffer.view(old.dtype, old.shape)


def _picker(positions: list[int]) -> Callable[[list], tuple] | None:
    """A function that takes these items of a list, as a tuple."""
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    return (lambda items: (items[positions[0]],)) if positions else None


def _copied(buffer: Buffer) -> Buffer:
    made = allocate(buffer.nbytes)
    made.device = buffer.device
    np.asarray(made)[...] = np.asarray(buffer)
    return made
