"""Walks over a graph."""

from __future__ import annotations

import rushlight.ops as O
from rushlight.base.dtypes import float32
from rushlight.ir.node import buffer_node, nearest_below


def test_the_nearest_wanted_nodes_hide_those_below_them() -> None:
    x, y = (buffer_node(object(), (4,), float32) for _ in range(2))
    inner = O.exp(x)
    middle = O.sin(inner)
    top = O.add(O.mul(middle, middle), O.add(inner, y))
    assert set(nearest_below(top, {middle, x, y}.__contains__)) == {middle, x, y}
    assert set(nearest_below(top, {middle, y}.__contains__)) == {middle, y}
    assert set(nearest_below(top, {x, y}.__contains__, {inner}.__contains__)) == {y}
    assert nearest_below(top, {top}.__contains__) == []
