"""Graph nodes: immutable, interned, single-result.

A node is (op, src, attrs) with the shape and dtype that the op's record derives. Pure nodes are
interned: building the same node twice gives the same object. Leaves that stand for memory
(`buffer`) have identity. Where the node came from (user file:line) is not part of it; the
recording keeps that.

A node that has been computed *becomes a leaf*: its op turns into `buffer`, its sources are let
go, and everything that refers to it now reads memory.

This module names no op except the three leaves every graph needs:
  buffer   a value in memory; `buffer` attribute holds the runtime's object
  scalar   a number that is an input of the program (a Python float or int the user passed)
  const    a number that is part of the meaning (written by a rule or a decomposition)
"""

from __future__ import annotations

import itertools
import math
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.base.dtypes import DType
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import product

if TYPE_CHECKING:
    from rushlight.ir.opdef import OpDef

Size = "int | Expr"


class Node:
    """One value of a graph. `attrs` is a tuple in the order of the record's attribute params.

    shape: tuple of int or Expr. `op` is the op record (None for a leaf; see `leaf`).
    `leaf` is "", "buffer", "scalar" or "const". For scalar and const, attrs == (value,).
    """

    __slots__ = (
        "op", "src", "attrs", "shape", "dtype", "leaf", "buffer", "key", "serial", "pairs", "meta",
        "token", "__weakref__",
    )  # fmt: skip

    op: OpDef | None
    src: tuple[Node, ...]
    attrs: tuple[Any, ...]
    shape: tuple[int | Expr, ...]
    dtype: DType
    leaf: str
    buffer: Any
    # Order of creation: the same program makes its nodes in the same order every time.
    serial: int
    # What it is besides its sources; None: a leaf.
    meta: Meta | None
    # Held by whoever keeps the node for a tensor (engine/live.py): its count says if anybody does.
    token: object
    # A value of pairs (query, key) that only exists inside an attention, see ops/pairs.py.
    pairs: bool

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numel(self) -> int | Expr:
        if all(type(size) is int for size in self.shape):
            return math.prod(self.shape)  # type: ignore[arg-type]
        return product(self.shape)

    @property
    def name(self) -> str:
        return self.leaf or self.op.name  # type: ignore[union-attr]

    def attr(self, name: str) -> Any:
        """An attribute by the name its record gives it."""
        return self.attrs[self.op.attr_index[name]]  # type: ignore[union-attr]

    def __repr__(self) -> str:
        value = f" {self.attrs[0]!r}" if self.leaf in ("scalar", "const") else ""
        return f"<{self.name}{value} {self.dtype.name}{list(self.shape)}>"

    def become_leaf(self, buffer: Any) -> None:
        """The value is in memory now: forget how it was computed."""
        key = self.key
        weak = _INTERNED.get(key)
        if weak is not None and weak() is self:
            _INTERNED.pop(key, None)
        self.src, self.attrs, self.leaf, self.buffer = (), (), "buffer", buffer
        self.op, self.key, self.meta, self.pairs = None, (), None, False

    if TYPE_CHECKING:
        # Installed by `rushlight.ops.operators`: this module names no op.
        def __add__(self, other: Any) -> Node: ...
        def __radd__(self, other: Any) -> Node: ...
        def __sub__(self, other: Any) -> Node: ...
        def __rsub__(self, other: Any) -> Node: ...
        def __mul__(self, other: Any) -> Node: ...
        def __rmul__(self, other: Any) -> Node: ...
        def __truediv__(self, other: Any) -> Node: ...
        def __rtruediv__(self, other: Any) -> Node: ...
        def __pow__(self, other: Any) -> Node: ...
        def __rpow__(self, other: Any) -> Node: ...
        def __matmul__(self, other: Any) -> Node: ...
        def __neg__(self) -> Node: ...


class Meta:
    """All of a node but its sources; one object for equal ones. `seen`: what the engine keeps of
    it (engine/signature.py)."""

    __slots__ = ("op", "attrs", "shape", "dtype", "makes_pairs", "keeps_pairs", "seen")

    def __init__(self, op: OpDef, attrs: tuple, shape: tuple, dtype: DType) -> None:
        self.op, self.attrs, self.shape, self.dtype = op, attrs, shape, dtype
        self.makes_pairs = op.kind == "pairs"
        self.keeps_pairs = op.kind in _OF_EACH_PAIR and not op.sums_pairs
        self.seen: Any = None


class NoValue:
    """The memory of a leaf that has none: a tensor of the device "meta".

    Whatever is made of such a leaf is such a leaf: it has a shape and a dtype, and no value.
    `used`: whether there ever was one.
    """

    foreign = False
    used = False

    def view(self, dtype: DType, shape: tuple) -> Any:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    def number(self, dtype: DType, offset: int = 0) -> Any:
        return self.view(dtype, ())


NO_VALUE = NoValue()


def no_value_node(shape: tuple[int | Expr, ...], dtype: DType) -> Node:
    """A leaf with a shape and a dtype only."""
    NO_VALUE.used = True
    return buffer_node(NO_VALUE, shape, dtype)


# What is made of pair values by these kinds is one again.
_OF_EACH_PAIR = frozenset(("elementwise", "composite", "movement", "gather"))
_SERIAL = itertools.count()
_METAS: dict[tuple, Meta] = {}
MOST_METAS = 1 << 16
# (meta, ids of the sources) -> weak reference. A dead entry is a miss; they are swept when the
# table has doubled. (A WeakValueDictionary does the same at four times the cost per node.) Threads
# that make one node at the same time may get two: they only miss that these are equal.
_INTERNED: dict[tuple, weakref.ref[Node]] = {}
_SWEEP_AT = 1 << 14


def next_serial() -> int:
    """A serial of its own: nodes made before have smaller ones, nodes made later larger ones."""
    return next(_SERIAL)


def make_node(
    op: OpDef,
    src: tuple[Node, ...],
    attrs: tuple[Any, ...],
    shape: tuple[int | Expr, ...],
    dtype: DType,
) -> Node:
    """The node with this meaning; an existing one when there is one.

    `shape` and `dtype` are the caller's (the record's rules have run); they are part of the key,
    because a graph with symbolic sizes may give one op several shapes.
    """
    return node_of(meta_of(op, attrs, shape, dtype), src)


def meta_of(op: OpDef, attrs: tuple, shape: tuple, dtype: DType) -> Meta:
    """The Meta of these parts."""
    key = (op.name, attrs, shape, dtype)
    found = _METAS.get(key)
    if found is None or found.op is not op:
        if len(_METAS) >= MOST_METAS:
            _METAS.clear()
        found = _METAS[key] = Meta(op, attrs, shape, dtype)
    return found


def node_of(meta: Meta, src: tuple[Node, ...]) -> Node:
    """The node with this meaning over these sources; an existing one when there is one."""
    if NO_VALUE.used and any(source.buffer is NO_VALUE for source in src):
        return no_value_node(meta.shape, meta.dtype)
    key = (meta, *map(id, src))
    weak = _INTERNED.get(key)
    if weak is not None:
        found = weak()
        if found is not None and not found.leaf:
            return found
    node = _new(Node)
    node.op, node.src, node.attrs = meta.op, src, meta.attrs
    node.shape, node.dtype, node.meta = meta.shape, meta.dtype, meta
    # A source is kept alive by the node, so its id in the key cannot be reused meanwhile.
    node.leaf, node.buffer, node.key, node.serial = "", None, key, next(_SERIAL)  # type: ignore
    node.token = object()
    pairs = meta.makes_pairs
    if meta.keeps_pairs:
        for source in src:  # a comprehension is a call of its own
            pairs = pairs or source.pairs
    node.pairs = pairs
    _INTERNED[key] = _ref(node)
    if len(_INTERNED) > _SWEEP_AT:
        _sweep()
    return node


_new = Node.__new__
_ref = weakref.ref


def _sweep() -> None:
    global _SWEEP_AT
    for key, weak in list(_INTERNED.items()):
        if weak() is None:
            _INTERNED.pop(key, None)
    _SWEEP_AT = max(1 << 14, 2 * len(_INTERNED))


def _leaf(leaf: str, attrs: tuple, shape: tuple, dtype: DType, buffer: Any = None) -> Node:
    node = _new(Node)
    node.op, node.src, node.attrs, node.shape, node.dtype = None, (), attrs, shape, dtype
    node.leaf, node.buffer, node.key, node.serial = leaf, buffer, (), next(_SERIAL)
    node.pairs, node.meta, node.token = False, None, object()
    return node


def buffer_node(buffer: Any, shape: tuple[int | Expr, ...], dtype: DType) -> Node:
    """A leaf that reads memory. Never interned: two buffers are two values."""
    return _leaf("buffer", (), tuple(shape), dtype, buffer)


def scalar_node(value: Any, dtype: DType, origin: Callable[[], Any] | None = None) -> Node:
    """A 0-dim program input holding a Python number (never a constant of a kernel).

    The number is real, whatever the dtype: a complex one is `complex` of two such leaves.
    `origin()` gives the number again when a captured program is replayed (an RNG offset); None
    for a number that was simply passed.
    """
    return _leaf("scalar", (value,), (), dtype, origin)


_CONSTS: weakref.WeakValueDictionary[tuple, Node] = weakref.WeakValueDictionary()


def const_node(value: Any, dtype: DType) -> Node:
    """A 0-dim constant that belongs to the meaning of a rule (interned by value and dtype)."""
    value = _as_number(value, dtype)
    bits: Any = struct.pack("d", value) if isinstance(value, float) else value
    if isinstance(value, complex):
        bits = struct.pack("dd", value.real, value.imag)
    key = (type(value).__name__, bits, dtype)
    node = _CONSTS.get(key)
    if node is None:
        node = _CONSTS.setdefault(key, _leaf("const", (value,), (), dtype))
    return node


def _as_number(value: Any, dtype: DType) -> Any:
    if dtype.kind == "bool":
        return bool(value)
    if dtype.kind == "complex":
        return complex(value)
    return float(value) if dtype.is_floating_point else int(value)


def with_sources(node: Node, src: tuple[Node, ...]) -> Node:
    """A node over other sources of the same shapes and dtypes; itself when they are its own."""
    if src == node.src:
        return node
    assert node.op is not None  # a leaf has no sources
    return make_node(node.op, src, node.attrs, node.shape, node.dtype)


def with_dtype(node: Node, dtype: DType) -> Node:
    """A scalar or const leaf retyped: Python numbers take the dtype of what they meet."""
    if node.dtype is dtype:
        return node
    value = node.attrs[0]
    if node.leaf == "const":
        return const_node(value, dtype)
    return scalar_node(value, dtype, node.buffer)


def topological(roots: Sequence[Node], stop: Callable[[Node], bool] | None = None) -> list[Node]:
    """Every node that the roots need, sources first, each once. Iterative (graphs are deep).

    `stop(node)` true: the node is listed but not entered.
    """
    order: list[Node] = []
    seen: set[int] = set()
    for root in roots:
        if id(root) in seen:
            continue
        stack: list[tuple[Node, int]] = [(root, 0)]
        seen.add(id(root))
        while stack:
            node, position = stack.pop()
            src = () if stop is not None and stop(node) else node.src
            if position < len(src):
                stack.append((node, position + 1))
                child = src[position]
                if id(child) not in seen:
                    seen.add(id(child))
                    stack.append((child, 0))
            else:
                order.append(node)
    return order


def nearest_below(
    node: Node, wanted: Callable[[Node], bool], ends: Callable[[Node], bool] | None = None
) -> list[Node]:
    """The wanted nodes that `node` is made of, without those below them, and without what is below
    nodes that `ends` says."""
    found: list[Node] = []
    seen: set[Node] = set()
    stack = list(node.src)
    while stack:
        here = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        if wanted(here):
            found.append(here)
        elif ends is None or not ends(here):
            stack.extend(here.src)
    return found
