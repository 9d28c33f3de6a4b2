"""A function of a module that is imported when the function is first called.

For what many programs never call: a process that finds its kernels on disk makes none.

>>> deferred("math", "sqrt")(9.0)
3.0
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def deferred(module: str, name: str) -> Callable[..., Any]:
    """`module.name`, imported at each call (after the first one that is a look into a table)."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call
