"""The compiler. The same module is torch.compiler, so its few public functions are here.

`is_compiling` asks the engine (which imports this package), so the engine says how: `CAPTURE`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "disable",
    "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
    "nested_compile_region", "reset", "set_default_backend", "set_stance", "substitute_in_graph",
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
    """The function itself: everything that runs while a call is captured is in its graph."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself."""
    return fn


def substitute_in_graph(original_fn: Any, **_: Any) -> Any:
    """A decorator that changes nothing: the original function is captured as it runs."""
    return lambda traceable_fn: traceable_fn


def nested_compile_region(fn: Any = None, **_: Any) -> Any:
    """The function itself: a part that repeats is compiled once anyway."""
    return (lambda function: function) if fn is None else fn


def cudagraph_mark_step_begin() -> None:
    """Accepted: results of one replay are not overwritten by the next."""


def reset() -> None:
    """Accepted: what was compiled is kept, since it is used only where its guards hold."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Names that `torch.compile(backend=...)` takes; all of them mean this compiler."""
    return ["inductor"]


class _Default:
    backend: Any = "inductor"


def set_default_backend(backend: Any) -> None:
    """Remembered: there is one compiler."""
    _Default.backend = "inductor" if backend is None else backend


def get_default_backend() -> Any:
    return _Default.backend


class set_stance:  # noqa: N801
    """Accepted, as a call, a context or a decorator: nothing here compiles ahead of use."""

    def __init__(self, stance: str = "default", **_: Any) -> None:
        allowed = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile",
                   "eager_then_compile", "aot_eager_then_compile")  # fmt: skip
        if stance not in allowed:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'; one of {allowed}")

    def __call__(self, fn: Any) -> Any:
        return fn

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None
