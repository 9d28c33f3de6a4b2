"""The tile programs of what is computed meanwhile.

In: nothing. Out: a list that grows. Always true: equal programs are there once; programs inside are
compiled anew, so none is missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rushlight.compiler.step import HostStep
from rushlight.compiler.tile.ir import Program
from rushlight.compiler.tile.text import structural_key
from rushlight.engine import watch
from rushlight.engine.listen import Listener, Stage
from rushlight.engine.realize import PROGRAMS, flush


class _Programs(Listener):
    def __init__(self) -> None:
        self.found: list[Program] = []
        self._seen: set[str] = set()

    def stage(self, stage: Stage) -> None:
        if stage.kind != "plan":
            return
        for step in stage.state.steps:
            if isinstance(step, HostStep):
                continue
            key = structural_key(step.program)
            if key not in self._seen:
                self._seen.add(key)
                self.found.append(step.program)


@contextmanager
def heard_programs() -> Iterator[list[Program]]:
    """All programs that are compiled inside. What was pending before is computed first."""
    flush()
    heard = _Programs()
    with watch.listening(heard) as family:
        try:
            yield heard.found
            flush()
        finally:
            PROGRAMS.forget(family)
