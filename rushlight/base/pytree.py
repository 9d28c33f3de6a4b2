"""Nested tuples, lists and dicts as a flat list of leaves and a hashable description.

>>> leaves, spec = flatten({"a": [1, 2], "b": (3,)})
>>> leaves
[1, 2, 3]
>>> unflatten(spec, [10, 20, 30])
{'a': [10, 20], 'b': (30,)}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

LEAF = "*"
_REGISTERED: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {}


class _Context:
    """What a registered kind keeps of itself; hashable whatever it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Context) and self.value == other.value

    def __hash__(self) -> int:
        return hash(repr(self.value))


def register(
    kind: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Any, Any], Any],
) -> None:
    """Objects of `kind` are containers: `flatten_fn(obj)` gives children and a context."""
    _REGISTERED[kind] = (flatten_fn, unflatten_fn)


def forget(kind: type) -> None:
    """Objects of `kind` are leaves again."""
    _REGISTERED.pop(kind, None)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves in order, and the spec that `unflatten` needs."""
    leaves: list[Any] = []
    return leaves, _describe(tree, leaves)


def _describe(tree: Any, leaves: list[Any]) -> Any:
    kind = type(tree)
    if kind in _REGISTERED:
        children, context = _REGISTERED[kind][0](tree)
        return (kind, _Context(context), tuple(_describe(value, leaves) for value in children))
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
    if isinstance(keys, _Context):
        return _REGISTERED[kind][1](values, keys.value)
    if keys is not None:
        return kind(zip(keys, values, strict=True))
    if hasattr(kind, "_fields"):
        return kind(*values)
    return kind(values)
