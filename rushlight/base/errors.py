"""Every error class a user can see that Python does not have already.

Each one is also a subclass of the exception PyTorch raises for the same mistake, so
`except RuntimeError` written for PyTorch still catches it. `RushlightError` is a mixin: it says
"this came from us" and carries where in the user's program the mistake is, when that is known.

>>> issubclass(OutOfMemoryError, RuntimeError) and issubclass(OutOfMemoryError, RushlightError)
True
"""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE = str(Path(__file__).parent.parent)


def user_line() -> str:
    """file:line of the innermost frame outside this package ("" when there is none)."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_PACKAGE, "<frozen")):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


class RushlightError(Exception):
    """Mixin of all our errors. `where` is the user's "file:line", or "" when it is not known."""

    where: str = ""

    def at(self, where: str) -> RushlightError:
        """The same error, saying where: `raise error.at("train.py:87")`."""
        if where and not self.where:
            self.where = where
            self.args = (f"{self.args[0] if self.args else ''} (at {where})", *self.args[1:])
        return self


class OutOfMemoryError(RushlightError, RuntimeError):
    """Memory could not be had. `asked` and `in_use` are bytes."""

    def __init__(self, asked: int, in_use: int, cached: int = 0, detail: str = "") -> None:
        self.asked, self.in_use, self.cached = asked, in_use, cached
        super().__init__(
            f"out of memory: tried to allocate {asked} bytes; {in_use} bytes are in use by "
            f"tensors and {cached} bytes were cached{'; ' + detail if detail else ''}"
        )

    def __reduce__(self) -> tuple:
        return (OutOfMemoryError, (self.asked, self.in_use, self.cached))


class IndexOutOfRangeError(RushlightError, IndexError):
    """An index value, found while computing, lies outside the dimension it indexes.

    seen: what is known of the value.
    """

    seen: str = ""


class NotSupportedError(RushlightError, NotImplementedError):
    """The call is right but a piece of it is not there; the message names the piece."""


class MissingNameError(NotSupportedError, AttributeError):
    """A public name of PyTorch that is not there yet. `hasattr` answers no, as it should."""


class ShapeError(RushlightError, RuntimeError):
    """Shapes that do not fit together."""


class DTypeError(RushlightError, TypeError):
    """A dtype that the operation does not take."""


class BackendError(RushlightError, RuntimeError):
    """A backend is missing or could not compile or load a program."""


class CacheError(RushlightError, RuntimeError):
    """A cache could not be used. Ordinary reads and writes never raise it: they miss instead."""


class PassError(RushlightError, RuntimeError):
    """CHECK=2 found that a pass of the compiler changed what a program computes."""
