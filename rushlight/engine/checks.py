"""Comparisons that are made again and again, as functions of straight Python code.

In: expressions for where values are, and the values that were there (`Checks.add`). Out: one
function that says whether all are there still. Always true: it answers what one comparison after
the other would. The interpreter reads an attribute or an entry in place two to three times as fast
as a loop over places can.

>>> checks = Checks()
>>> settings = {"rate": 0.5}
>>> checks.add_same(f"{checks.name(settings)}['rate']", 0.5)
>>> holds = checks.compiled()
>>> holds()
True
>>> settings["rate"] = 0.25
>>> holds()
False
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

SIMPLE = (type(None), bool, int, float, complex, str, bytes)
# What reading a place gives where a container is another now.
UNREADABLE = (LookupError, ValueError, AttributeError, RuntimeError)
# So many comparisons are one function: the parser's tables stay small.
MOST_OF_FUNCTION = 1000
# A call that is made a few times only is not worth the code.
PLAIN_TIMES = 4


def is_plain(value: Any) -> bool:
    """A number or text that is no more than its value: one of a user's class has attributes."""
    return isinstance(value, SIMPLE) and not hasattr(value, "__dict__")


def same(now: Any, before: Any) -> bool:
    """The same object, or an equal number or text of the same class."""
    if now is before:
        return True
    if not is_plain(before) or now.__class__ is not before.__class__:
        return False
    return now == before and str(now) == str(before) or (now != now and before != before)


class Checks:
    """Conditions over named values, in order."""

    def __init__(self) -> None:
        self._parts: list[_Part] = [_Part()]

    def name(self, value: Any) -> str:
        """How the value is called in the conditions that are added next."""
        return self._parts[-1].name(value)

    def next(self) -> None:
        """What follows does not use names given before: a new function may begin."""
        if len(self._parts[-1].conditions) >= MOST_OF_FUNCTION:
            self._parts.append(_Part())

    def add(self, condition: str) -> None:
        self._parts[-1].conditions.append(condition)

    def add_same(self, place: str, value: Any) -> None:
        """What is at the place is the value (`same`)."""
        name = self.name(value)
        check = f"{place} is {name}"
        by_value = is_plain(value) and value is not None
        self.add(f"({check} or same({place}, {name}))" if by_value else check)

    def add_items(self, items: str, values: Iterable[Any]) -> None:
        """The items are the values, in this order and no others."""
        part, found = self._parts[-1], list(values)
        if not found:
            self.add(f"not [*{items}]")
            return
        taken = [f"i{len(part.lines)}_{number}" for number in range(len(found))]
        part.lines.append(f"({', '.join(taken)},) = {items}")
        for place, value in zip(taken, found, strict=True):
            self.add_same(place, value)

    def compiled(self) -> Callable[[], bool]:
        """False also where a place cannot be read."""
        functions = [part.compiled() for part in self._parts]
        if len(functions) == 1:
            return functions[0]
        return lambda: all([function() for function in functions])


class _Part:
    """One function: lines that take containers apart, then the conditions."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.names: dict[int, str] = {}
        self.lines: list[str] = []
        self.conditions: list[str] = []

    def name(self, value: Any) -> str:
        found = self.names.get(id(value))
        if found is None:
            found = self.names[id(value)] = f"v{len(self.values)}"
            self.values.append(value)
        return found

    def compiled(self) -> Callable[[], bool]:
        answer = f"return ({' and '.join(self.conditions) or True})"
        code = f"""
def make({", ".join(self.names.values())}):
    def holds():
        try:
            {"; ".join([*self.lines, answer])}
        except UNREADABLE:
            return False
    return holds
"""
        space: dict[str, Any] = {"same": same, "UNREADABLE": UNREADABLE, "__name__": __name__}
        exec(compile(code, "<checks>", "exec"), space)
        return space["make"](*self.values)


class Compared:
    """A comparison that becomes code when it was made often enough.

    plain  makes it
    write  adds the same to a `Checks`
    """

    def __init__(self, plain: Callable[[], bool], write: Callable[[Checks], None]) -> None:
        self._plain, self._write = plain, write
        self._left = PLAIN_TIMES
        self.holds = self._counted

    def _counted(self) -> bool:
        if not self._plain():
            return False
        self._left -= 1
        if not self._left:
            checks = Checks()
            self._write(checks)
            self.holds = checks.compiled()
        return True
