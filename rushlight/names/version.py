"""`torch.__version__`: the version of PyTorch's API, with our own after the plus sign.

>>> from rushlight.names.version import TorchVersion
>>> TorchVersion("2.13.0+rushlight.0.1.0") >= (2, 6)
True
>>> TorchVersion("2.13.0+rushlight.0.1.0") < "2.4"
False
"""

from __future__ import annotations

import re
from typing import Any

API = "2.13.0"
OWN = "0.1.0"


def _key(version: Any) -> tuple[tuple[int, ...], bool]:
    """Something to compare: the numbers of the release, and whether it is final."""
    if isinstance(version, tuple | list):
        return _trimmed(tuple(int(part) for part in version)), True
    text = str(version).strip().lower().removeprefix("v")
    found = re.match(r"\d+(?:\.\d+)*", text)
    if found is None:
        raise ValueError(f"version: got {version!r}, expected numbers with dots between them")
    rest = text[found.end() :].partition("+")[0]
    numbers = tuple(int(part) for part in found.group().split("."))
    return _trimmed(numbers), re.match(r"[.\-_]?(a|b|c|rc|dev|alpha|beta|pre)", rest) is None


def _trimmed(numbers: tuple[int, ...]) -> tuple[int, ...]:
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers


class TorchVersion(str):
    """A version as text that compares by its numbers with strings, tuples and versions."""

    def __lt__(self, other: Any) -> bool:
        return _key(self) < _key(other)

    def __le__(self, other: Any) -> bool:
        return _key(self) <= _key(other)

    def __gt__(self, other: Any) -> bool:
        return _key(self) > _key(other)

    def __ge__(self, other: Any) -> bool:
        return _key(self) >= _key(other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        try:
            return _key(self) == _key(other)
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        return str.__hash__(self)


VERSION = TorchVersion(f"{API}+rushlight.{OWN}")
