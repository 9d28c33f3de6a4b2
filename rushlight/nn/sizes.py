"""Sizes that users give once for all dimensions, or one per dimension."""

from __future__ import annotations

from typing import Any

Sizes = int | tuple[int, ...]


def sizes_of(value: Any, count: int) -> tuple[Any, ...]:
    """`count` equal values, or the given ones."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
