"""Capturing a call: flush points are held back, so that all of it becomes one program.

While a `Session` is open in a thread, a flush point there does nothing and a look (a value needed
in the middle) is noted: such a call cannot be replayed.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

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
    grads_written  id -> weak tensor whose .grad the call accumulated or set
    grads_read     (weak tensor, holder of its .grad) where an existing gradient was added to
    grad_guards    id -> (weak tensor, had a gradient), where that decides what the call does
    """

    def __init__(self) -> None:
        self.held: dict[Node, Ref] = {}
        self.known: weakref.WeakSet[Ref] = weakref.WeakSet()
        self.refusal = ""
        self.grads_written: dict[int, weakref.ref] = {}
        self.grads_read: list[tuple[weakref.ref, Ref]] = []
        self.grad_guards: dict[int, tuple[weakref.ref, bool]] = {}
        self._reset: set[int] = set()

    def note_reset(self, tensor: Any) -> None:
        """`tensor.grad` was set (to None, mostly) by the call."""
        self._reset.add(id(tensor))
        self.grads_written.setdefault(id(tensor), weakref.ref(tensor))

    def note_accumulate(self, tensor: Any, holder: Ref | None) -> None:
        """A gradient is about to be added to `tensor.grad`, which `holder` holds (None: none)."""
        if id(tensor) in self.grads_written:
            return
        weak = self.grads_written[id(tensor)] = weakref.ref(tensor)
        self.grad_guards[id(tensor)] = (weak, holder is not None)
        if holder is not None:
            self.grads_read.append((weak, holder))

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
