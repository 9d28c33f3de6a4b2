"""Who still needs which value: the registry that a flush reads.

A `Ref` holds one node on behalf of a tensor's storage or of autograd. Whatever is pending in a
live Ref is computed at the next flush; then the node has become a `buffer` leaf.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from rushlight.ir.node import Node

_ORDER = itertools.count()
_LIVE: dict[int, weakref.ref[Ref]] = {}


class Ref:
    """A holder of one node. `saved`: held for a gradient, recomputed instead of kept if cheap."""

    __slots__ = ("node", "saved", "serial", "changes", "__weakref__")

    def __init__(self, node: Node, saved: bool = False) -> None:
        self.node = node
        self.saved = saved
        self.changes: list[Any] | None = None  # what undo.py may have to take back
        self.serial = serial = next(_ORDER)
        _LIVE[serial] = weakref.ref(self, lambda _: _LIVE.pop(serial, None))


def live_refs() -> list[Ref]:
    """Every live Ref, oldest first."""
    return [ref for weak in list(_LIVE.values()) if (ref := weak()) is not None]
