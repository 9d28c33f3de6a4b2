"""Numbers that a replay reads again: the learning rate of an optimizer's group.

In: a group of options, while a call is captured. Out: the same options with a `Tracked` number in
the place of `lr`. Arithmetic with it stays tracked down to the input of the program. What else
code asks of it (a comparison, its plain value) is answered and becomes a guard, so a replay with
another answer does not happen.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import Any

from rushlight.engine.capture import open_session


class _Asked(threading.local):
    """open: where answers are noted when no call is captured (see repeat.py)."""

    open: list | None = None


ASKED = _Asked()
PLAIN = frozenset((int, float, bool))


class Tracked:
    """`value` now; `read()` gives it again."""

    __slots__ = ("value", "read")

    def __init__(self, value: float, read: Callable[[], float]) -> None:
        self.value, self.read = value, read

    def _joined(self, other: Any, function: Callable[[Any, Any], Any]) -> Any:
        mine = self.read
        if other.__class__ in PLAIN:
            return Tracked(function(self.value, other), lambda: function(mine(), other))
        if other.__class__ is Tracked:
            theirs = other.read
            return Tracked(function(self.value, other.value), lambda: function(mine(), theirs()))
        return NotImplemented

    def _asked(self, function: Callable[[Any], Any]) -> Any:
        """The answer, guarded."""
        answer, read = function(self.value), self.read
        session = open_session()
        if session is not None:
            session.predicates.append((lambda: function(read()), answer))
        elif ASKED.open is not None:
            ASKED.open.append((lambda: function(read()), answer))
        return answer

    def __add__(self, other: Any) -> Any:
        return self._joined(other, operator.add)

    def __radd__(self, other: Any) -> Any:
        return self._joined(other, lambda a, b: b + a)

    def __sub__(self, other: Any) -> Any:
        return self._joined(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._joined(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._joined(other, operator.mul)

    def __rmul__(self, other: Any) -> Any:
        return self._joined(other, lambda a, b: b * a)

    def __truediv__(self, other: Any) -> Any:
        return self._joined(other, operator.truediv)

    def __rtruediv__(self, other: Any) -> Any:
        return self._joined(other, lambda a, b: b / a)

    def __neg__(self) -> Tracked:
        read = self.read
        return Tracked(-self.value, lambda: -read())

    def __eq__(self, other: object) -> Any:
        return self._asked(lambda value: value == other)

    def __lt__(self, other: Any) -> Any:
        return self._asked(lambda value: value < other)

    def __le__(self, other: Any) -> Any:
        return self._asked(lambda value: value <= other)

    def __gt__(self, other: Any) -> Any:
        return self._asked(lambda value: value > other)

    def __ge__(self, other: Any) -> Any:
        return self._asked(lambda value: value >= other)

    def __bool__(self) -> bool:
        return self._asked(bool)

    def __float__(self) -> float:
        return self._asked(float)

    def __int__(self) -> int:
        return self._asked(int)

    def __hash__(self) -> int:
        return self._asked(hash)

    def __repr__(self) -> str:
        return self._asked(repr)


def replayed_settings(group: dict[str, Any]) -> dict[str, Any]:
    """The options of an optimizer's group, for the optimizer to read."""
    session = open_session()
    if session is None or type(group.get("lr")) is not float:
        return group
    session.tracked.append((group, "lr"))
    return {**group, "lr": Tracked(group["lr"], lambda: group["lr"])}
