"""A recorded graph as (structure, ints, numbers): what makes two recordings the same program.

Structure is everything but sizes, offsets and Python numbers; sizes 0 and 1 are structure too
(they decide broadcasting). The ints are the sizes and offsets in the order in which they occur, so
a program is found by structure and then by matching its template against the ints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from rushlight.base.dtypes import DType
from rushlight.ir.node import Meta, Node
from rushlight.ir.opdef import OpDef

SIZE, OFFSET = "n", "o"


@dataclass(slots=True)
class Recording:
    """One flush before it is compiled. The key holds for each node of `order` its Pattern, which
    says where sizes and offsets are, and the positions of its sources; after None the roots'."""

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


class Pattern:
    """What a node is besides its sources and sizes: one object for equal ones, so that keys are
    hashed and compared by identity."""

    __slots__ = ("parts", "__weakref__")

    def __init__(self, parts: tuple) -> None:
        self.parts = parts

    def __repr__(self) -> str:
        return repr(self.parts)


# While somebody has a pattern (a node's meta, the key of a program), equal ones are that object.
_PATTERNS: WeakValueDictionary[tuple, Pattern] = WeakValueDictionary()
# (dtype, shape) of an input -> its pattern and sizes; dtype of a number, or constant -> pattern.
_INPUTS: dict[tuple, tuple[Pattern, tuple[int, ...]]] = {}
_NUMBERS: dict[Any, Pattern] = {}
MOST_INPUTS = MOST_NUMBERS = 1 << 14


def _pattern(*parts: Any) -> Pattern:
    return _PATTERNS.setdefault(parts, Pattern(parts))


def record(roots: Sequence[Node]) -> Recording:
    """Walk the pending graph below the roots once.

    The nodes come in the order in which they were made, leaves where they are first read: the same
    program makes its nodes in the same order every time.
    """
    nodes = _pending_below(roots)
    position: dict[Node, int] = {}
    key: list[Any] = []
    ints: list[int] = []
    leaves = _Leaves(position, key, ints)
    for node in nodes:
        src = node.src
        for source in src:
            if source not in position:
                leaves.add(source)
        seen = node.meta.seen or _see(node.meta)  # type: ignore[union-attr]
        key.append(seen[0])
        for source in src:
            key.append(position[source])
        ints += seen[1]
        position[node] = len(position)
    for root in roots:
        if root.leaf and root not in position:
            leaves.add(root)
    key.append(None)
    for root in roots:
        key.append(position[root])
    return Recording(
        tuple(key), tuple(ints), tuple(leaves.numbers), tuple(leaves.inputs),
        tuple(leaves.scalars), tuple(roots), tuple(position),
    )  # fmt: skip


def _pending_below(roots: Sequence[Node]) -> list[Node]:
    """What must be computed for the roots, in order of recording."""
    seen: set[Node] = set()
    nodes: list[Node] = []
    stack = [root for root in roots if not root.leaf]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            nodes.append(node)
            for source in node.src:
                if not source.leaf:
                    stack.append(source)
    if len(nodes) > 1:
        nodes.sort(key=_serial)
    return nodes


_serial = attrgetter("serial")


class _Leaves:
    """Writes leaves into a recording. `position`: of each node met, in order."""

    __slots__ = ("position", "key", "ints", "numbers", "inputs", "scalars")

    def __init__(self, position: dict[Node, int], key: list[Any], ints: list[int]) -> None:
        self.position, self.key, self.ints = position, key, ints
        self.numbers: list[Any] = []
        self.inputs: list[Node] = []
        self.scalars: list[Node] = []

    def add(self, node: Node) -> None:
        position = self.position
        position[node] = len(position)
        dtype = node.dtype
        if node.leaf == "buffer":
            self.inputs.append(node)
            found = _INPUTS.get((dtype, node.shape)) or _see_input(dtype, node.shape)
            self.key.append(found[0])
            self.ints += found[1]
        elif node.leaf == "scalar":
            self.scalars.append(node)
            self.numbers.append(node.attrs[0])
            self.key.append(_NUMBERS.get(dtype) or _see_number(dtype, 0, dtype.name))
        else:
            number = (1, dtype.name, repr(node.attrs[0]))
            self.key.append(_NUMBERS.get(node) or _see_number(node, *number))


def _see(meta: Meta) -> tuple[Pattern, tuple[int, ...]]:
    """Kept with the meta: its pattern, and its sizes and offsets."""
    ints: list[int] = []
    kinds = attr_kinds(meta.op)
    attrs = tuple([_attr(k, v, ints) for k, v in zip(kinds, meta.attrs, strict=False)])
    shape = _sizes(meta.shape, ints)
    meta.seen = (_pattern(meta.op.name, attrs, shape, meta.dtype.name), tuple(ints))
    return meta.seen


def _see_input(dtype: DType, shape: tuple) -> tuple[Pattern, tuple[int, ...]]:
    ints: list[int] = []
    pattern = _pattern(dtype.name, _sizes(shape, ints))
    if len(_INPUTS) > MOST_INPUTS:
        _INPUTS.clear()
    found = _INPUTS[dtype, shape] = (pattern, tuple(ints))
    return found


def _see_number(kept_as: Any, *parts: Any) -> Pattern:
    if len(_NUMBERS) > MOST_NUMBERS:
        _NUMBERS.clear()
    found = _NUMBERS[kept_as] = _pattern(*parts)
    return found


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
