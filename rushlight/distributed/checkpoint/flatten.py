"""Nested dicts and lists as one flat dict, and values put back at their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rushlight as torch

Path = tuple[Any, ...]


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_tensor, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_tensor, value))
    return isinstance(value, torch.Tensor)


def flatten_state_dict(state_dict: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """The values by keys joined with dots, and the path of each. Lists without tensors and dicts
    stay values.

    >>> flatten_state_dict({"a": {"b": 1, "c": [2]}})
    ({'a.b': 1, 'a.c': [2]}, {'a.b': ('a', 'b'), 'a.c': ('a', 'c')})
    """
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}

    def visit(path: Path, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                visit((*path, key), item)
        elif isinstance(value, list) and any(
            isinstance(item, Mapping) or _holds_tensor(item) for item in value
        ):
            for number, item in enumerate(value):
                visit((*path, number), item)
        else:
            name = ".".join(map(str, path))
            if name in flat:
                raise ValueError(f"duplicated flatten key {name}")
            flat[name], paths[name] = value, path

    visit((), state_dict)
    return flat, paths


def set_element(root: Any, path: Path, value: Any) -> None:
    """Put a value at its place; dicts and lists on the way are made."""
    here = root
    for key, following in zip(path, path[1:], strict=False):
        here = _at(here, key, [] if isinstance(following, int) else {})
    if isinstance(here, list):
        _grow(here, path[-1])
    here[path[-1]] = value


def _at(here: Any, key: Any, new: Any) -> Any:
    if isinstance(here, list):
        _grow(here, key)
        if here[key] is None:
            here[key] = new
        return here[key]
    return here.setdefault(key, new)


def _grow(items: list[Any], at: int) -> None:
    items += [None] * (at + 1 - len(items))
