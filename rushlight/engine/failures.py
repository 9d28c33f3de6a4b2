"""Values that cannot be had because an index is out of range, and why.

In: a run that failed, and the recorded node whose check failed. Out: the wanted values that depend
on it are marked; a flush leaves them out, so that everything else can be computed, and a look at
one raises its error again. A mark goes with its node.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from rushlight.base.errors import IndexOutOfRangeError
from rushlight.compiler.target import Plan
from rushlight.engine.index_errors import site_text
from rushlight.engine.signature import Recording
from rushlight.ir.node import Node

_FAILED: WeakKeyDictionary[Node, str] = WeakKeyDictionary()


def mark_failed(recording: Recording, plan: Plan, error: IndexOutOfRangeError) -> None:
    """Mark the roots that need the node whose check failed, and complete the error's text.

    An input that a kernel updates in place may be changed already: what still needs it cannot be
    computed any more, and says so.
    """
    at = plan.meta["checked_at"][error.site - 1]
    if at is None:
        return
    # The program may have been compiled for another line that does the same.
    text = site_text(recording.order[at]) + (f": {error.seen}" if error.seen else "")
    error.args = (text,)
    lost = {recording.inputs[number] for number in plan.meta["updated"]}
    reason: dict[Node, str] = {recording.order[at]: text}
    for node in recording.order:
        for source in node.src:
            if source in reason and node not in reason:
                reason[node] = reason[source]
            elif source in lost and node not in reason:
                reason[node] = f"this value was being updated in place when a run failed: {error}"
    for root in recording.roots:
        if root in reason:
            _FAILED[root] = reason[root]


def has_failed(node: Node) -> bool:
    return node in _FAILED


def raise_failed(nodes: Iterable[Node]) -> None:
    """Raise the error of the first of these nodes that has one."""
    for node in nodes:
        if node in _FAILED:
            raise IndexOutOfRangeError(_FAILED[node])
