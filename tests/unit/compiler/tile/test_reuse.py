"""Groups that compute the same share a program; what differs in any way does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

import rushlight.ops as O
from rushlight.base.dtypes import DType, float32, float64, int64
from rushlight.compiler.given import Graph, NumberSlot
from rushlight.compiler.pipeline import compile_graph
from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import KernelCall, Plan
from rushlight.compiler.tile.ir import Program
from rushlight.ir.node import Node, buffer_node, scalar_node, topological


@dataclass
class Unbuilt:
    program: Program
    scratch: tuple = ()


def leaf(*shape: int, dtype: DType = float32) -> Node:
    return buffer_node(None, shape, dtype)


def number(slot: int, dtype: DType = float32) -> Node:
    return scalar_node(NumberSlot(slot), dtype)


def plan_of(*roots: Node) -> Plan:
    inputs = tuple(n for n in topological(list(roots)) if n.leaf == "buffer")
    graph = Graph(inputs, roots, frozenset(), (), Hints({}), lambda node: "")
    return compile_graph(graph, lambda programs: [Unbuilt(p) for p in programs], verify=True)


def calls_of(plan: Plan) -> list[KernelCall]:
    return [call for region in plan.regions for call in region]  # type: ignore[misc]


def programs_of(*roots: Node) -> int:
    return len({call.executable.program for call in calls_of(plan_of(*roots))})


def test_layers_share_their_programs() -> None:
    x = leaf(32, 64)
    node = x
    for _ in range(5):
        node = O.gelu(O.add(O.dot(O.softmax(node, 1), leaf(64, 64)), leaf(64)))
    calls = calls_of(plan_of(node))
    assert len(calls) == 10
    assert len({call.executable.program for call in calls}) == 2


def test_each_kernel_keeps_its_own_buffers_and_numbers() -> None:
    """p - lr * g, for three parameters and two learning rates."""
    parameters = [(leaf(50), leaf(50), number(slot)) for slot in (1, 0, 1)]
    plan = plan_of(*(O.sub(p, O.mul(g, lr)) for p, g, lr in parameters))
    calls = calls_of(plan)
    assert len({call.executable.program for call in calls}) == 1
    assert [call.scalars for call in calls] == [(1,), (0,), (1,)]
    assert len({b for call in calls for b in call.buffers}) == 9
    kinds = [[plan.buffers[b].kind for b in call.buffers] for call in calls]
    assert all(sorted(kind) == ["input", "input", "result"] for kind in kinds)


def test_numbers_of_one_kernel_are_told_apart() -> None:
    x, y = leaf(50), leaf(50)
    a = O.add(O.mul(x, number(0)), number(1))
    b = O.add(O.mul(y, number(2)), number(2))  # one number twice: another program
    c = O.add(O.mul(leaf(50), number(3)), number(0))
    calls = calls_of(plan_of(a, b, c))
    assert calls[0].executable.program is calls[2].executable.program
    assert calls[0].executable.program is not calls[1].executable.program
    assert [call.scalars for call in calls] == [(0, 1), (2,), (3, 0)]


Make = Callable[[Node, Node], Node]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x, y: O.add(x, y), lambda x, y: O.add(x, x)),
        (lambda x, y: O.add(x, 0.0), lambda x, y: O.add(x, -0.0)),
        (lambda x, y: O.mul(x, 2.0), lambda x, y: O.mul(x, 3.0)),
        (lambda x, y: O.permute(x, (1, 0)), lambda x, y: O.flip(x, (0,))),
        (lambda x, y: O.flip(x, (1,)), lambda x, y: O.flip(x, (0,))),
        (lambda x, y: O.reduce_sum(x, (1,)), lambda x, y: O.reduce_max(x, (1,))),
        (lambda x, y: O.mul(O.sub(x, y), x), lambda x, y: O.mul(O.sub(x, y), y)),
        (lambda x, y: O.cast(x, float64), lambda x, y: O.cast(x, int64)),
        (lambda x, y: O.exp(x), lambda x, y: O.exp(O.reshape(y, (1600,)))),
    ],
)
def test_what_differs_is_built_apart(one: Make, other: Make) -> None:
    p, q, r, s = (leaf(40, 40) for _ in range(4))
    a, b = one(p, q), other(r, s)
    same = one(leaf(40, 40), leaf(40, 40))
    assert programs_of(a, same) == 1
    assert programs_of(a, b) == 2


def test_a_value_that_is_kept_makes_a_difference() -> None:
    x, y = leaf(40, 40), leaf(40, 40)
    kept = O.exp(x)
    roots = [kept, O.softmax(kept, 1), O.softmax(O.exp(y), 1)]
    assert programs_of(*roots) == 2
