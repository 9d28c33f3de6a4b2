"""Every error class a user can see that Python does not have already.

Each one is also a subclass of the exception PyTorch raises for the same mistake, so
`except RuntimeError` written for PyTorch still catches it. `RushlightError` is a mixin that says
"this came from us".

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
    """Mixin of all our errors."""


class OutOfMemoryError(RushlightError, RuntimeError, MemoryError):
    """Memory could not be had. `asked` and `in_use` are bytes. PyTorch's is a RuntimeError; what
    Python code catches is a MemoryError."""

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


class LinAlgError(RushlightError, RuntimeError):
    """A matrix that cannot be inverted, solved with or factorised (torch.linalg.LinAlgError)."""


class NotSupportedError(RushlightError, NotImplementedError):
    """The call is right but a piece of it is not there; the message names the piece."""


class MissingNameError(NotSupportedError, AttributeError):
    """A public name of PyTorch that is not there yet. `hasattr` answers no, as it should."""


class BackendError(RushlightError, RuntimeError):
    """A backend is missing or could not compile, load or run a program."""


class RefusedError(NotSupportedError):
    """A backend cannot express a kernel. Nothing of the program has run. `reasons`: one a line."""

    def __init__(self, backend: str, refused: dict[str, tuple[str, ...]]) -> None:
        self.backend, self.refused = backend, refused
        self.reasons = tuple(dict.fromkeys(r for reasons in refused.values() for r in reasons))
        kernels = "; ".join(f"{name}: {', '.join(why)}" for name, why in refused.items())
        super().__init__(f"backend {backend} cannot express {len(refused)} kernels: {kernels}")

    def __reduce__(self) -> tuple:
        return (RefusedError, (self.backend, self.refused))


class PassError(RushlightError, RuntimeError):
    """CHECK=2 found that a pass of the compiler changed what a program computes."""
