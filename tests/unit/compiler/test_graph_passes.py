"""simplify and decompose: what they remove, and what they must leave alone."""

from __future__ import annotations

import pytest
from compile_parts import leaf, primitive

import rushlight.ops as O
from rushlight.base.dtypes import bfloat16, bool_, float16, float32, float64, int64
from rushlight.compiler.graph.simplify import simplify
from rushlight.ir.node import Node, const_node, topological


def names(*roots: Node) -> list[str]:
    return [n.name for n in topological(list(roots)) if not n.leaf]


x = leaf(4, 6)


@pytest.mark.parametrize(
    "node",
    [
        O.reshape(x, (4, 6)),
        O.expand(x, (4, 6)),
        O.permute(x, (0, 1)),
        O.slice_(x, (0, 0), (4, 6), (1, 1)),
        O.cast(x, float32),
    ],
    ids=lambda node: node.name,
)
def test_movement_that_does_nothing_is_removed(node: Node) -> None:
    assert simplify(node) is x


def test_chains_of_reshapes_become_one() -> None:
    (root,) = primitive(O.reshape(O.reshape(O.reshape(x, (24,)), (2, 12)), (3, 8)))
    assert root is O.reshape(x, (3, 8))
    (root,) = primitive(O.reshape(O.reshape(x, (24,)), (4, 6)))
    assert root is x


def test_two_permutes_become_one_or_none() -> None:
    y = leaf(2, 3, 4)
    (root,) = primitive(O.permute(O.permute(y, (1, 2, 0)), (1, 2, 0)))
    assert root is O.permute(y, (2, 0, 1))
    (root,) = primitive(O.permute(O.permute(y, (1, 2, 0)), (2, 0, 1)))
    assert root is y


@pytest.mark.parametrize(
    "node",
    [
        O.slice_(x, (1, 0), (3, 6), (1, 1)),
        O.slice_(leaf(4), (0,), (2,), (2,)),
        O.flip(x, (0,)),
        O.cast(x, float64),
        O.cast(O.cast(x, bfloat16), float32),
        O.cast(O.cast(x, int64), float32),
    ],
    ids=str,
)
def test_movement_and_casts_that_do_something_stay(node: Node) -> None:
    assert primitive(node) == [node]


@pytest.mark.parametrize(
    "node",
    [
        O.add(x, 0.0),  # -0.0 + 0.0 is 0.0
        O.mul(x, 1.0),  # a signaling NaN becomes quiet; and only named ops are ever folded
        O.mul(x, 0.0),  # NaN, inf and -0.0
        O.sub(x, x),  # inf - inf
        O.div(x, x),  # 0 / 0
        O.eq(x, x),  # false for NaN
        O.neg(O.neg(x)),
        O.maximum(x, x),
        O.sub(O.add(x, 1e30), 1e30),  # rounds
        O.add(O.add(x, 1.0), 2.0),  # rounds twice
    ],
    ids=str,
)
def test_arithmetic_is_never_rewritten(node: Node) -> None:
    assert primitive(node) == [node]


def test_composites_are_gone_and_shared_parts_stay_shared() -> None:
    e = O.exp(x)
    a, b = primitive(O.softmax(e, 1), O.add(e, 1.0))
    order = topological([a, b])
    assert all(n.leaf or n.op.kind != "composite" for n in order)
    assert sum(n is e for n in order) == 1


@pytest.mark.parametrize("dtype", [bfloat16, float16], ids=lambda d: d.name)
def test_a_composite_of_narrow_floats_rounds_once(dtype) -> None:
    narrow = leaf(4, 6, dtype=dtype)
    (root,) = primitive(O.softmax(narrow, 1))
    assert root.name == "cast" and root.dtype is dtype
    inside = [n for n in topological([root]) if not n.leaf and n is not root]
    assert [n.name for n in inside if n.src[0] is narrow] == ["cast"]
    assert {n.dtype for n in inside if n.dtype is not bool_} == {float32}


def test_constants_of_a_narrow_composite_are_widened_exactly() -> None:
    narrow = leaf(4, 6, dtype=bfloat16)
    (root,) = primitive(O.layer_norm(narrow))
    wide = [n for n in topological([root]) if n.leaf == "const" and n.dtype.is_floating_point]
    assert wide and all(n.dtype is float32 for n in wide)


def test_deep_graphs_do_not_recurse() -> None:
    node = x
    for _ in range(5000):
        node = O.add(node, 1.0)
    assert primitive(node) == [node]


def test_equal_constants_are_one_node_but_zeros_keep_their_sign() -> None:
    assert const_node(1.5, float32) is const_node(1.5, float32)
    assert const_node(0.0, float32) is not const_node(-0.0, float32)
    assert const_node(1, int64) is not const_node(True, bool_)
