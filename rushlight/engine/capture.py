"""Capturing a call: flush points are held back, so that all of it becomes one program.

While a `Session` is open in a thread, a flush point there does nothing and a look (a value needed
in the middle) is noted: such a call cannot be replayed.
"""

from __future__ import annotations

import threading
import weakref

from rushlight.base.errors import user_line
from rushlight.engine.live import Ref, live_refs
from rushlight.ir.node import Node


class _Open(threading.local):
    session: Session | None = None


_OPEN = _Open()


class Session:
    """One call being captured.

    held     value leaf at the start -> the Ref that held it
    known    Refs alive at the start
    refusal  why the call cannot be replayed ("" while it can)
    """

    def __init__(self) -> None:
        self.held: dict[Node, Ref] = {}
        self.known: weakref.WeakSet[Ref] = weakref.WeakSet()
        self.refusal = ""

    def __enter__(self) -> Session:
        for ref in live_refs():
            self.known.add(ref)
            if ref.node.leaf == "buffer":
                self.held.setdefault(ref.node, ref)
        _OPEN.session = self
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.session = None

    def refuse(self, reason: str) -> None:
        if not self.refusal:
            self.refusal = f"{reason} ({user_line()})"


def open_session() -> Session | None:
    """The session of this thread, if a call is being captured."""
    return _OPEN.session
