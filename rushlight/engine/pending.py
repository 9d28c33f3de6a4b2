"""How far recording is since the last flush, and what callers want of the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import ReferenceType, WeakSet

from rushlight.base.config import Value
from rushlight.engine.program import Program


class _Pending:
    """How far recording is since the last flush (see bound.py, which sets these).

    since     serial of the first node recorded after it; -1 while there is none
    due       serial at which somebody should look whether too much waits
    first_call, first_serial
              the model that was called first since then, and when (tensors/loop_turns.py)
    settings  overrides that a call of a compiled function wants for the flush of what it recorded
    askers    by id, sets of such functions that get the programs of that flush
    """

    def __init__(self) -> None:
        self.since = self.due = self.first_serial = -1
        self.first_call: ReferenceType[Any] | None = None
        self.settings: dict[str, Value] = {}
        self.askers: dict[int, WeakSet[Program]] = {}

    def ask(self, settings: Mapping[str, Value], programs: WeakSet[Program]) -> None:
        """Let the next flush run under these settings, and say with which programs it was made."""
        if settings:
            self.settings |= settings
            self.askers[id(programs)] = programs

    def tell(self, program: Program) -> None:
        """A flush takes this program."""
        for programs in self.askers.values():
            programs.add(program)

    def forget_asked(self) -> None:
        """The flush was made."""
        self.settings, self.askers = {}, {}


PENDING = _Pending()
