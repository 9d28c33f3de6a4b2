"""The compiler. The same module is torch.compiler, so its few public functions are here.

`is_compiling` asks the engine (which imports this package), so the engine says how: `CAPTURE`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "allow_in_graph", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting",
]  # fmt: skip


class _Capture:
    """is_open: whether this thread is inside a call that `compile` captures."""

    is_open: Callable[[], bool] = staticmethod(lambda: False)


CAPTURE = _Capture()


def is_compiling() -> bool:
    return CAPTURE.is_open()


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself: a capture runs it as it is, so there is nothing to switch off."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    return fn


def cudagraph_mark_step_begin() -> None:
    """Accepted: results of one replay are not overwritten by the next."""
