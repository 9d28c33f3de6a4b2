"""Interval analysis of a mask: what it can be on boxes of (batch, head, queries, keys).

In: the graph of a mask_mod on pair indices, and boxes (many at once, as arrays). Out: for each box
whether the mask can be true there, can be false there, and whether both are known to occur. Always
true: "cannot" is certain, "can" may be too careful; what is not understood can be anything.

Understood are sums, differences and products of indices and numbers, division and remainder by a
number, comparisons, and/or/not/xor, where, minimum, maximum, clamp, abs, and captured tensors
indexed by such values (their least and largest values over ranges are looked up in a pyramid).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.attention.interval_rules import EXACT, FLAT, INFINITY, RULES, Found, Truth, Values
from rushlight.autograd.graph import decompose
from rushlight.base.dtypes import bool_
from rushlight.engine.realize import read
from rushlight.ir.node import Node, make_node, topological

Boxes = Sequence[tuple[np.ndarray, np.ndarray]]


class Analysis:
    """Of one mask; `on(boxes)` may be asked again and again."""

    def __init__(self, root: Node) -> None:
        self.root = _primitive(root)
        self.order = topological([self.root], lambda node: not node.pairs)
        self._pyramids: dict[Node, _Pyramid] = {}

    def on(self, boxes: Boxes) -> Truth:
        """boxes: (first, last) index of each of the four dims, as float arrays of one length."""
        found: dict[Node, Found] = {}
        shape = boxes[0][0].shape
        for node in self.order:
            found[node] = self._evaluate(node, [found[s] for s in node.src if s in found], boxes)
        root = found[self.root]
        if isinstance(root, Truth):
            return root
        everything = np.ones(shape, bool)
        return Truth(everything, everything, ~everything)

    def _evaluate(self, node: Node, args: list[Found], boxes: Boxes) -> Found:
        like = boxes[0][0]
        if not node.pairs:
            return _constant(node, like)
        if node.name == "pair_index":
            dim = node.attr("dim")
            slopes = tuple(float(d == dim) for d in range(4))
            return Values(*boxes[dim], slopes)  # type: ignore[arg-type]
        if node.name == "gather_nd":
            return self._gather(node, args, like)
        rule = RULES.get(node.name)
        found = None if rule is None else rule(node, *args)
        return _anything(node, like) if found is None else found

    def _gather(self, node: Node, args: list[Found], like: np.ndarray) -> Found:
        table, *indices = node.src
        if table.pairs or len(indices) != table.ndim:
            return _anything(node, like)
        if table not in self._pyramids:
            self._pyramids[table] = _Pyramid(read(table))
        values = args[-len(indices) :]
        if not all(isinstance(v, Values) for v in values):
            return _anything(node, like)
        low, high = self._pyramids[table].between(values)  # type: ignore[arg-type]
        if table.dtype is bool_:
            return Truth(high > 0, low == 0, np.zeros(like.shape, bool))
        return Values(low, high)


def _primitive(root: Node) -> Node:
    """Composites written out."""
    done: dict[Node, Node] = {}
    for node in topological([root], lambda node: not node.pairs):
        again = node
        if node.pairs and node.op is not None and node.op.kind == "composite":
            again = _primitive(decompose(node.op, node.attrs, [done[s] for s in node.src]))
        elif node.pairs:
            src = tuple(done[s] for s in node.src)
            assert node.op is not None
            again = make_node(node.op, src, node.attrs, node.shape, node.dtype)
        done[node] = again
    return done[root]


def _constant(node: Node, like: np.ndarray) -> Found:
    """A number, or a captured tensor that is used as it is."""
    values = np.asarray(node.attrs[0]) if node.leaf in ("const", "scalar") else read(node)
    if node.dtype is bool_:
        can_hold, can_fail = bool(values.any()), not bool(values.all())
        both = np.full(like.shape, can_hold and can_fail)
        return Truth(np.full(like.shape, can_hold), np.full(like.shape, can_fail), both)
    if values.size == 0:
        return _anything(node, like)
    lows, highs = bounds_of(values)
    low, high = lows.min(), highs.max()
    slopes = FLAT if low == high else None
    return Values(np.full(like.shape, low), np.full(like.shape, high), slopes)


def bounds_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers as float64 that are not above, and not below. NaN can be anything."""
    as_float = values.astype(np.float64)
    if values.dtype.kind in "iu":
        rounded = np.abs(as_float) > EXACT
        low, high = (np.nextafter(as_float, sign * INFINITY) for sign in (-1, 1))
        return np.where(rounded, low, as_float), np.where(rounded, high, as_float)
    nan = np.isnan(as_float)
    return np.where(nan, -INFINITY, as_float), np.where(nan, INFINITY, as_float)


def _anything(node: Node, like: np.ndarray) -> Found:
    if node.dtype is bool_:
        yes = np.ones(like.shape, bool)
        return Truth(yes, yes, ~yes)
    return Values(np.full(like.shape, -INFINITY), np.full(like.shape, INFINITY))


class _Pyramid:
    """Least and largest values of a table over ranges of its last index."""

    def __init__(self, table: np.ndarray) -> None:
        self.shape = table.shape
        self.levels = [bounds_of(table.reshape(-1))]
        while len(self.levels[-1][0]) > 1:
            low, high = self.levels[-1]
            if len(low) % 2:
                low, high = np.append(low, low[-1]), np.append(high, high[-1])
            self.levels.append((low.reshape(-1, 2).min(1), high.reshape(-1, 2).max(1)))

    def between(self, indices: Sequence[Values]) -> tuple[np.ndarray, np.ndarray]:
        """Over boxes of indices. Where an index but the last is no single number, or one may be
        out of range, over the whole table."""
        first = last = np.zeros(indices[0].low.shape)
        known = np.ones(first.shape, bool)
        for position, (index, size) in enumerate(zip(indices, self.shape, strict=True)):
            known &= (index.low >= 0) & (index.high < size)
            if position < len(self.shape) - 1:
                known &= index.is_one
            first, last = first * size + index.low, last * size + index.high
        first, last = (np.where(known, x, 0).astype(np.int64) for x in (first, last))
        # Two aligned ranges of the next power of two cover a range.
        level = np.ceil(np.log2(last - first + 1)).astype(np.int64)
        least, most = np.empty(first.shape), np.empty(first.shape)
        for number in np.unique(level):
            here = level == number
            lows, highs = self.levels[number]
            a, b = first[here] >> number, last[here] >> number
            least[here] = np.minimum(lows[a], lows[b])
            most[here] = np.maximum(highs[a], highs[b])
        low, high = self.levels[-1]
        return np.where(known, least, low[0]), np.where(known, most, high[0])
