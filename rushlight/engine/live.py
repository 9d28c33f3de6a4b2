"""Who still needs which value: the registry that a flush reads.

A `Ref` holds one node on behalf of a tensor's storage or of autograd. Whatever is pending in a
live Ref is computed at the next flush; then the node has become a `buffer` leaf.

Always true: a flush looks at the Refs that got a pending node since the last one, and at no
others; whether a Ref holds a given leaf is said by the count of references to the leaf's token.
"""

from __future__ import annotations

import itertools
import weakref
from operator import attrgetter
from sys import getrefcount
from typing import Any

from rushlight.ir.node import Node, topological

_ORDER = itertools.count()
# Serial -> weak reference. Dead entries are taken out now and then: a call for each Ref that goes
# would cost more.
_LIVE: dict[int, weakref.ref[Ref]] = {}
_SWEEP_AT = 1 << 14
_weak = weakref.ref
# References to Refs that got a pending node and may still have it, oldest first. Recording
# appends, on any thread; only flushes take entries out.
WAITING: list[weakref.ref[Ref]] = []
# A token that no Ref holds: held by its node and by the call.
FREE = 2


class Ref:
    """A holder of one node. `saved`: held for a gradient, recomputed instead of kept if cheap.

    token   of the node; with tokens of others that must not be written over meanwhile, a tuple
    """

    __slots__ = ("node", "token", "saved", "serial", "changes", "__weakref__")

    def __init__(self, node: Node, saved: bool = False) -> None:
        self.node = node
        self.token: Any = node.token
        self.saved = saved
        self.changes: list[Any] | None = None  # what undo.py may have to take back
        self.serial = serial = next(_ORDER)
        weak: Any = _weak(self)
        _LIVE[serial] = weak
        if not node.leaf:
            WAITING.append(weak)
        if len(_LIVE) > _SWEEP_AT:
            _sweep()

    def hold(self, node: Node) -> None:
        """Hold another node. The only way to change what is held."""
        self.node = node
        if not node.leaf:
            # First: until a flush of another thread sees the new node, the old token keeps what
            # it is made of.
            WAITING.append(_weak(self))
        self.token = node.token


def is_held(node: Node) -> bool:
    """Does a live Ref hold this node, or need it for what it holds?"""
    return getrefcount(node.token) > FREE


def next_order() -> int:
    """A serial of its own: Refs made later have larger ones."""
    return next(_ORDER)


def live_refs() -> list[Ref]:
    """Every live Ref, oldest first."""
    refs = [ref for one in list(_LIVE.values()) if (ref := one()) is not None]
    return sorted(refs, key=_serial)


def waiting_refs() -> tuple[int, list[Ref]]:
    """How many entries of WAITING were looked at, and the live Refs among them."""
    weak = WAITING.copy()
    return len(weak), [ref for one in weak if (ref := one()) is not None]


def settle_waiting(count: int) -> None:
    """After a flush that looked at `count` entries: what still waits is looked at again.

    A saved value that was not computed, because it is cheap to compute from leaves, is not: it
    keeps these leaves from now on, and what is between, which may become a leaf later.
    """
    rest = []
    for weak in WAITING[:count]:
        ref = weak()
        if ref is None or ref.node.leaf:
            continue
        if ref.saved or ref.node.pairs:
            ref.token = tuple([n.token for n in topological([ref.node])])
        else:
            rest.append(weak)
    WAITING[:count] = rest


def _sweep() -> None:
    global _SWEEP_AT
    for serial, weak in list(_LIVE.items()):
        if weak() is None:
            _LIVE.pop(serial, None)
    _SWEEP_AT = max(1 << 14, 2 * len(_LIVE))


_serial = attrgetter("serial")
