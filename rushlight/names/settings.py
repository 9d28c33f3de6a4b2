"""Modules of settings that programs set (torch._dynamo.config and others).

They steer PyTorch's compiler. Here one compiler does the same whatever they say, so a setting keeps
what it is given and changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def patch_of(module: str) -> Any:
    """The `patch` of a module of settings: a context, or a decorator, with other values.

    `patch(name=value)`, `patch({"name": value})` and `patch("name", value)`.
    """

    @contextmanager
    def patch(first: Any = None, value: Any = None, /, **changes: Any) -> Iterator[None]:
        if isinstance(first, str):
            changes[first] = value
        elif first is not None:
            changes.update(first)
        values = vars(sys.modules[module])
        before = {name: values[name] for name in changes if name in values}
        values.update(changes)
        try:
            yield
        finally:
            for name in changes:
                values.pop(name)
            values.update(before)

    return patch
