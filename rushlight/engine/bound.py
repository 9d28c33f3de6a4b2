"""The bound on what may wait: a program that never looks at a value must not grow without end.

In: `limit_pending(node)` for each recorded node past `PENDING.due`. Out: a flush, now and then.

Always true: a loop is cut at one place of its body. The first cut falls where `max_pending` nodes
wait; the line that recorded the last of them is remembered, and later cuts wait for that line again
(until half of `max_pending` more wait). Each stretch is then a whole number of iterations, the same
number every time, so it is one program and not a new one per cut.
"""

from __future__ import annotations

from rushlight.base.config import NO_OVERRIDES, config
from rushlight.base.errors import user_line
from rushlight.engine.realize import PENDING, flush
from rushlight.ir.node import Node


class _Place:
    """The user line at which the last cut fell."""

    line = ""


class _Setting:
    """max_pending outside of overrides, once it was read: it is asked for after every flush."""

    limit = 0


def limit_pending(node: Node) -> None:
    """Called when `node.serial` has reached `PENDING.due`; counts from the last flush."""
    if PENDING.since < 0:
        PENDING.since = node.serial
    waiting = node.serial - PENDING.since
    if config.overrides() is not NO_OVERRIDES:
        limit = config.max_pending
    else:
        limit = _Setting.limit = _Setting.limit or config.max_pending
    if waiting < limit * 3 // 4:
        PENDING.due = PENDING.since + limit * 3 // 4
        return
    PENDING.due = node.serial
    at_last_place = bool(_Place.line) and user_line() == _Place.line
    if at_last_place or waiting >= (limit * 3 // 2 if _Place.line else limit):
        _Place.line = user_line()
        flush()
