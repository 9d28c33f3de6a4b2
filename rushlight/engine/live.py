"""Who still needs which value: the registry that a flush reads.

A `Ref` holds one node on behalf of a tensor's storage or of autograd. Whatever is pending in a
live Ref is computed at the next flush; then the node has become a `buffer` leaf.
"""

from __future__ import annotations

import itertools
import weakref
from operator import attrgetter
from typing import Any

from rushlight.ir.node import Node

_ORDER = itertools.count()
# Serial -> weak reference. Dead entries are taken out now and then: a call for each Ref that goes
# would cost more.
_LIVE: dict[int, weakref.ref[Ref]] = {}
# Those that a flush has nothing to do with: memory of others, which is written at once and never
# given to a program.
_APART: dict[int, weakref.ref[Ref]] = {}
_SWEEP_AT = 1 << 14
_weak = weakref.ref


class _Waiting:
    """some: may a Ref hold a value that is not computed? Set where a Ref gets a node."""

    some = True


WAITING = _Waiting()


class Ref:
    """A holder of one node. `saved`: held for a gradient, recomputed instead of kept if cheap."""

    __slots__ = ("node", "saved", "serial", "changes", "__weakref__")

    def __init__(self, node: Node, saved: bool = False) -> None:
        self.node = node
        if not node.leaf:
            WAITING.some = True
        self.saved = saved
        self.changes: list[Any] | None = None  # what undo.py may have to take back
        self.serial = serial = next(_ORDER)
        _LIVE[serial] = _weak(self)
        if len(_LIVE) > _SWEEP_AT:
            _sweep()


def next_order() -> int:
    """A serial of its own: Refs made later have larger ones."""
    return next(_ORDER)


def live_refs() -> list[Ref]:
    """Every live Ref, oldest first."""
    apart = [ref for one in list(_APART.values()) if (ref := one()) is not None]
    return sorted([*apart, *flushed_refs()], key=_serial)


def flushed_refs() -> list[Ref]:
    """Every live Ref that is not set apart, oldest first."""
    weak = list(_LIVE.values())
    refs = [ref for one in weak if (ref := one()) is not None]
    if len(weak) > len(refs) + max(64, len(refs) // 2):
        _drop_dead()
    return refs


def set_apart(ref: Ref) -> None:
    """A flush need not look at this one any more."""
    weak = _LIVE.pop(ref.serial, None)
    if weak is not None:
        _APART[ref.serial] = weak
        if len(_APART) > _SWEEP_AT:
            _sweep()


def _drop_dead() -> None:
    for refs in (_LIVE, _APART):
        for serial, weak in list(refs.items()):
            if weak() is None:
                refs.pop(serial, None)


def _sweep() -> None:
    global _SWEEP_AT
    _drop_dead()
    _SWEEP_AT = max(1 << 14, 2 * max(len(_LIVE), len(_APART)))


_serial = attrgetter("serial")
