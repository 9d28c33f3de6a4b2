"""Ctrl-C while memory is updated in place: seen when the update is complete.

A run that overwrites its inputs cannot be repeated, so it must not be left half-way. Only the main
thread gets signals, so elsewhere there is nothing to hold back. The functions of `_signal` are
those of `signal` without the search for names, which would cost more than all the rest.
"""

from __future__ import annotations

import threading
from _signal import SIGINT, getsignal, signal  # type: ignore[attr-defined]
from types import FrameType
from typing import Any


class Uninterrupted:
    """A context in which Ctrl-C is noted; it is handled at the end."""

    __slots__ = ("_wanted", "_handler", "_noted", "_was_noted")

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._handler: Any = None
        self._noted: FrameType | None = None
        self._was_noted = False

    def __enter__(self) -> None:
        if self._wanted and threading.current_thread() is threading.main_thread():
            handler = getsignal(SIGINT)
            if callable(handler):
                signal(SIGINT, self._note)
                self._handler = handler

    def _note(self, _: int, frame: FrameType | None) -> None:
        self._noted, self._was_noted = frame, True

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            signal(SIGINT, self._handler)
            if self._was_noted:
                self._handler(SIGINT, self._noted)
