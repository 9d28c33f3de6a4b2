"""Nested tuples, lists and dicts as a flat list of leaves and a hashable description.

>>> leaves, spec = flatten({"a": [1, 2], "b": (3,)})
>>> leaves
[1, 2, 3]
>>> unflatten(spec, [10, 20, 30])
{'a': [10, 20], 'b': (30,)}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

LEAF = "*"


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves in order, and the spec that `unflatten` needs."""
    leaves: list[Any] = []
    return leaves, _describe(tree, leaves)


def _describe(tree: Any, leaves: list[Any]) -> Any:
    kind = type(tree)
    if kind is dict or (isinstance(tree, dict) and kind.__module__ == "collections"):
        return (kind, tuple(tree), tuple(_describe(value, leaves) for value in tree.values()))
    if isinstance(tree, (list, tuple)):
        return (kind, None, tuple(_describe(value, leaves) for value in tree))
    leaves.append(tree)
    return LEAF


def unflatten(spec: Any, leaves: Sequence[Any]) -> Any:
    """The tree with these leaves."""
    return _build(spec, iter(leaves))


def _build(spec: Any, leaves: Iterator[Any]) -> Any:
    if spec is LEAF or spec == LEAF:
        return next(leaves)
    kind, keys, inner = spec
    values = [_build(part, leaves) for part in inner]
    if keys is not None:
        return kind(zip(keys, values, strict=True))
    if hasattr(kind, "_fields"):
        return kind(*values)
    return kind(values)
