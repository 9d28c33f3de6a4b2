"""A recorded graph as (structure, ints, numbers): what makes two recordings the same program.

Structure is everything but sizes, offsets and Python numbers; sizes 0 and 1 are structure too
(they decide broadcasting). The ints are the sizes and offsets in the order in which they occur, so
a program is found by structure and then by matching its template against the ints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.ir.node import Node, topological
from rushlight.ir.opdef import OpDef

SIZE, OFFSET = "n", "o"


@dataclass(frozen=True)
class Recording:
    """One flush before it is compiled. `ints[i]` occurs where `marks[i]` says SIZE or OFFSET."""

    key: tuple
    ints: tuple[int, ...]
    numbers: tuple[Any, ...]
    inputs: tuple[Node, ...]
    scalars: tuple[Node, ...]
    roots: tuple[Node, ...]
    order: tuple[Node, ...]


_KINDS: dict[OpDef, tuple[str, ...]] = {}


def attr_kinds(op: OpDef) -> tuple[str, ...]:
    """ "size", "sizes", "offset", "offsets" or "" for each attribute of the op's nodes."""
    kinds = _KINDS.get(op)
    if kinds is None:
        named = ("size", "sizes", "offset", "offsets")
        kinds = tuple(p.kind if p.kind in named else "" for p in op.params if p.is_attr)
        _KINDS[op] = kinds = (*kinds, "")
    return kinds


def record(roots: Sequence[Node]) -> Recording:
    """Walk the pending graph below the roots once."""
    order = topological(roots)
    position = {node: i for i, node in enumerate(order)}
    ints: list[int] = []
    numbers: list[Any] = []
    inputs: list[Node] = []
    scalars: list[Node] = []
    key: list[Any] = []
    for node in order:
        if node.leaf == "buffer":
            inputs.append(node)
            key.append((node.dtype.name, _sizes(node.shape, ints)))
        elif node.leaf == "scalar":
            scalars.append(node)
            numbers.append(node.attrs[0])
            key.append((0, node.dtype.name))
        elif node.leaf:
            key.append((1, node.dtype.name, repr(node.attrs[0])))
        else:
            op = node.op
            assert op is not None
            attrs = node.attrs
            if attrs:
                attrs = tuple(
                    _attr(kind, value, ints)
                    for kind, value in zip(attr_kinds(op), attrs, strict=False)
                )
            key.append(
                (
                    op.name,
                    tuple([position[s] for s in node.src]),
                    attrs,
                    _sizes(node.shape, ints),
                    node.dtype.name,
                )
            )
    key.append(tuple(position[root] for root in roots))
    return Recording(
        tuple(key),
        tuple(ints),
        tuple(numbers),
        tuple(inputs),
        tuple(scalars),
        tuple(roots),
        tuple(order),
    )


def _sizes(shape: tuple, ints: list[int]) -> tuple:
    pattern = []
    for size in shape:
        if size > 1:
            ints.append(size)
            pattern.append(SIZE)
        else:
            pattern.append(size)
    return tuple(pattern)


def _attr(kind: str, value: Any, ints: list[int]) -> Any:
    if not kind or value is None:
        return value
    if kind == "sizes":
        return _sizes(value, ints)
    if kind == "size":
        return _sizes((value,), ints)
    if kind == "offset":
        ints.append(value)
        return OFFSET
    ints.extend(value)
    return (OFFSET,) * len(value)


def offset_positions(recording: Recording) -> frozenset[int]:
    """Positions in `ints` that are offsets (a template never lets them share a size's variable)."""
    found: set[int] = set()
    count = 0

    def sizes(shape: tuple) -> None:
        nonlocal count
        count += sum(size > 1 for size in shape)

    for node in recording.order:
        if node.leaf == "buffer":
            sizes(node.shape)
        elif not node.leaf:
            assert node.op is not None
            for kind, value in zip(attr_kinds(node.op), node.attrs, strict=False):
                if not kind or value is None:
                    continue
                if kind in ("size", "sizes"):
                    sizes((value,) if kind == "size" else value)
                else:
                    length = 1 if kind == "offset" else len(value)
                    found.update(range(count, count + length))
                    count += length
            sizes(node.shape)
    return frozenset(found)
