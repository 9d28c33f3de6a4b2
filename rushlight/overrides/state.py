"""Who takes over calls now: the modes that are entered, and whether classes may."""

from __future__ import annotations

import threading
from typing import Any


class _State(threading.local):
    """modes: the entered ones, the innermost last. subclasses: False inside a class's answer."""

    def __init__(self) -> None:
        self.modes: tuple[Any, ...] = ()
        self.subclasses = True


STATE = _State()


class Setting:
    """A context in which some of the state is another."""

    def __init__(self, **values: Any) -> None:
        self._values = values
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> Setting:
        self._before.append({name: getattr(STATE, name) for name in self._values})
        for name, value in self._values.items():
            setattr(STATE, name, value)
        return self

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.pop().items():
            setattr(STATE, name, value)
