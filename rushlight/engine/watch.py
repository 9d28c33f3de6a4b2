"""Who listens right now: settings and open explanations, looked up at each compilation and flush.

In: the settings DEBUG, DUMP, CHECK, and listeners that were added. Out: the trace of a compilation,
and who is told of runs (watched_run.py). `is_watched()` is one test when nobody listens.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rushlight.base.config import NO_OVERRIDES, config
from rushlight.base.deferred import deferred
from rushlight.compiler.decisions import SILENT, Trace
from rushlight.compiler.target import Backend, Caps
from rushlight.engine import origin

if TYPE_CHECKING:
    from rushlight.engine.listen import Listener

# Most programs have no listener, so what they stand on is loaded with the first one.
Checker = deferred("rushlight.engine.check", "Checker")
DumpWriter = deferred("rushlight.engine.dump", "DumpWriter")
CompileLog = deferred("rushlight.engine.listen", "CompileLog")
DebugPrinter = deferred("rushlight.engine.report", "DebugPrinter")

_ADDED: list[Listener] = []
_FAMILIES: list[int | str] = [0]
_NUMBERS = itertools.count(1)
_LOCK = threading.Lock()


@contextmanager
def listening(listener: Listener) -> Iterator[int]:
    """Add a listener. Inside, every program is compiled anew, so that it is heard; gives the
    family under which those programs are kept."""
    family = next(_NUMBERS)
    with _LOCK:
        _ADDED.append(listener)
        _FAMILIES.append(family)
        origin.STATE.wanted += 1
    origin.refresh()
    try:
        yield family
    finally:
        with _LOCK:
            _ADDED.remove(listener)
            _FAMILIES.remove(family)
            origin.STATE.wanted -= 1
        origin.refresh()


def program_family() -> int | str:
    """Part of the key of programs: explained ones are kept apart from the others (0)."""
    return _FAMILIES[-1]


def settings_family() -> int | str:
    """What stands for the settings that a program changed on its way and that change kernels."""
    return _FAMILIES[0]


def change_family(name: int | str) -> None:
    """Such a setting has changed: programs made before are for its old value. 0: as at first."""
    _FAMILIES[0] = name


# Settings that are parts of a program's key (programs.py).
_OF_PROGRAMS = ("backend", "max_autotune")


class _Settings:
    """are_quiet: outside of overrides they were found to ask for nothing."""

    are_quiet = False


def quiet_family() -> int | str | None:
    """The family of programs, where nobody listens and no setting that programs depend on was
    changed but by the family; else None. May be None before the first run."""
    if (
        _Settings.are_quiet and not origin.STATE.on and config.overrides() is NO_OVERRIDES
        and config.told.keys().isdisjoint(_OF_PROGRAMS)
    ):  # fmt: skip
        return _FAMILIES[-1]
    return None


def is_watched() -> bool:
    """Must runs be told kernel by kernel? Asked at every flush, so the usual answer is fast."""
    if _Settings.are_quiet and not origin.STATE.on and config.overrides() is NO_OVERRIDES:
        return False
    level = config.debug
    origin.refresh()
    if level == 0 and not _ADDED and not config.has_overrides:
        _Settings.are_quiet = True
    return level > 0 or bool(_ADDED)


def run_listeners() -> list[Listener]:
    """Who is told of each kernel that runs."""
    return [*_ADDED, *([DebugPrinter()] if config.debug else [])]


def is_explained() -> bool:
    """Did somebody ask for an explanation, with times of each kernel?"""
    return bool(_ADDED)


def compile_trace(
    number: int, backend: Backend, caps: Caps, sample: Callable[[], Any] | None
) -> Trace:
    """What a compilation tells to: SILENT when nobody listens."""
    listeners: list[Listener] = list(_ADDED)
    if config.debug >= 3:
        listeners.append(DebugPrinter())
    if config.dump:
        listeners.append(DumpWriter(config.dump, config.only))
    if config.check >= 2:
        listeners.append(Checker())
    return CompileLog(number, backend, caps, listeners, sample) if listeners else SILENT
