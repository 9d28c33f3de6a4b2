"""How many threads a program may use: by `set_num_threads`, else the setting, else all cores.

In: a number. Out: the number in force. Who keeps threads asks for it when he makes them, and hears
of a change by `on_change`. Results do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.base.config import available_cores, config

MOST_THREADS = 4096


class _Chosen:
    threads = 0


_LISTENERS: list[Callable[[], None]] = []


def num_threads() -> int:
    """Threads of a program, the calling one included."""
    return _Chosen.threads or config.num_threads or available_cores()


def set_num_threads(threads: int) -> None:
    """Use this many threads from the next program on."""
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(threads).__name__}")
    if not 1 <= threads <= MOST_THREADS:
        raise RuntimeError(
            f"set_num_threads expects a positive integer (up to {MOST_THREADS}), got {threads}"
        )
    _Chosen.threads = threads
    for tell in _LISTENERS:
        tell()


def on_change(tell: Callable[[], None]) -> None:
    """`tell()` is called after each change."""
    _LISTENERS.append(tell)
