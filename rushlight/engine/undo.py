"""In-place changes that may have to be taken back.

In: `note_risk` for each recorded node at which a run may end (an index is checked, the host may
refuse), `note_change` for each change of a tensor made while such a node waits. Out: when the error
of such a node is raised, `take_back` puts back what was changed after its line had run, and what
depends on it: tensors are then as if the error had come at that line. What was computed meanwhile
was seen, or could have been, and stays.

Always true: while no such node waits, a change costs one comparison here.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from rushlight.engine.live import Ref
from rushlight.ir.node import Node, next_serial


class _Risk:
    """waits: some recorded node that is not computed yet may turn out to have no value."""

    waits = False


RISK = _Risk()
_HOLDERS: dict[int, weakref.ref[Ref]] = {}
_THREADS: WeakKeyDictionary[Node, int] = WeakKeyDictionary()


class Change:
    """One change of what a holder held.

    serial  as of a node that would have been made then
    before  the node that was held, which must stay computable (None: another holder has it)
    back    put everything back; called with the holder
    """

    __slots__ = ("serial", "thread", "before", "back")

    def __init__(self, before: Node | None, back: Callable[[Any], None]) -> None:
        self.serial, self.thread = next_serial(), threading.get_ident()
        self.before, self.back = before, back


def note_risk(node: Node) -> None:
    """A node was recorded at which a run may end."""
    RISK.waits = True
    _THREADS[node] = threading.get_ident()


def note_change(holder: Ref, before: Node | None, back: Callable[[Any], None]) -> None:
    """`holder` got the pending value that it holds now (see `Change`)."""
    if holder.changes is None:
        holder.changes = []
        serial = holder.serial
        _HOLDERS[serial] = weakref.ref(holder, lambda _: _HOLDERS.pop(serial, None))
    holder.changes.append(Change(before, back))


def take_back(at: Node, is_lost: Callable[[Node], bool]) -> None:
    """Undo what was changed after the node `at` had been recorded (by the same thread), and every
    value that is lost with it. Only what still waits."""
    thread = _THREADS.get(at, threading.get_ident())
    undone: list[tuple[Change, Ref]] = []
    for holder in _waiting():
        changes = holder.changes or []
        keep = len(changes)
        if is_lost(holder.node):
            keep = next((i for i, c in enumerate(changes) if c.serial > at.serial), keep)
        while keep and changes[keep - 1].serial > at.serial and changes[keep - 1].thread == thread:
            keep -= 1
        undone += [(change, holder) for change in changes[keep:]]
        holder.changes = changes[:keep]
    for change, holder in sorted(undone, key=lambda pair: -pair[0].serial):
        change.back(holder)
    forget_changes(RISK.waits)


def forget_changes(waits: bool) -> None:
    """Forget the changes of values that are in memory now. `waits`: may others still fail?"""
    RISK.waits = waits
    for holder in [ref for weak in list(_HOLDERS.values()) if (ref := weak()) is not None]:
        if holder.node.leaf or not holder.changes:
            holder.changes = None
            _HOLDERS.pop(holder.serial, None)


def _waiting() -> list[Ref]:
    refs = [ref for weak in list(_HOLDERS.values()) if (ref := weak()) is not None]
    return [ref for ref in refs if ref.node.leaf != "buffer"]
