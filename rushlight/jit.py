"""torch.jit: scripts are Python here. `script` gives back what it is given; nothing is traced."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "export", "ignore", "is_scripting", "is_tracing", "load", "save", "script",
    "script_if_tracing", "trace", "unused",
]  # fmt: skip


def is_scripting() -> bool:
    return False


is_tracing = is_scripting


def script(obj: Any, *_: Any, **__: Any) -> Any:
    """The same function or module: it runs as Python and is compiled when it runs."""
    return obj


def ignore(fn: Any = None, **_: Any) -> Any:
    return fn if callable(fn) else lambda function: function


unused = export = script_if_tracing = ignore


def _no_torchscript(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.jit.{name} is not supported: there is no TorchScript. Use torch.compile to run "
        "faster and torch.save of a state_dict to store a model."
    )


def trace(*_: Any, **__: Any) -> NoReturn:
    _no_torchscript("trace")


def save(*_: Any, **__: Any) -> NoReturn:
    _no_torchscript("save")


def load(*_: Any, **__: Any) -> NoReturn:
    _no_torchscript("load")
