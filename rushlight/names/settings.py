"""Modules of settings that programs set (torch._dynamo.config and others).

They steer PyTorch's compiler. Here one compiler does nearly the same whatever they say: a setting
keeps what it is given, and few are asked for it (base/config.py, `tell`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def patch_of(module: str) -> Any:
    """The `patch` of a module of settings: a context, or a decorator, with other values.

    `patch(name=value)`, `patch({"name": value})` and `patch("name", value)`; "group.name" is a
    setting of a group.
    """

    @contextmanager
    def patch(first: Any = None, value: Any = None, /, **changes: Any) -> Iterator[None]:
        if isinstance(first, str):
            changes[first] = value
        elif first is not None:
            changes.update(first)
        places = {name: _place(vars(sys.modules[module]), name) for name in changes}
        before = {name: at[key] for name, (at, key) in places.items() if key in at}
        for name, (at, key) in places.items():
            at[key] = changes[name]
        try:
            yield
        finally:
            for name, (at, key) in places.items():
                at.pop(key)
                if name in before:
                    at[key] = before[name]

    return patch


def _place(values: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """The table that holds a setting, and its key there."""
    *groups, key = name.split(".")
    for group in groups:
        values = vars(values[group])
    return values, key
