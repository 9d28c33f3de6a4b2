"""What a device says of itself, whichever it is: the questions, and how "not known" is said.

In: nothing. Out: `Source`. Always true: a value that cannot be had is a RuntimeError that says why,
never 0.
"""

from __future__ import annotations

from typing import NoReturn, Protocol


class Source(Protocol):
    """A device that can be asked. Percent, degrees Celsius, watts, MHz, bytes."""

    def name(self) -> str: ...

    def total_memory(self) -> int: ...

    def device_memory_used(self) -> int: ...

    def utilization(self) -> float: ...

    def temperature(self) -> float: ...

    def power_draw(self) -> float: ...

    def clock_rate(self) -> float: ...


QUESTIONS = (
    "name", "total_memory", "device_memory_used", "utilization", "temperature", "power_draw",
    "clock_rate",
)  # fmt: skip


def unknown(question: str, why: str) -> NoReturn:
    """The error of a value that cannot be had."""
    raise RuntimeError(f"{question}: {why}")
