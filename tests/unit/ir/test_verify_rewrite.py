"""Verification of graphs, patterns, rules and the rewrite driver."""

from __future__ import annotations

import pytest

from rushlight import ops
from rushlight.base.dtypes import float32, float64
from rushlight.ir.node import Node, buffer_node, const_node, make_node
from rushlight.ir.pattern import Any, Const, Op, Rule
from rushlight.ir.rewrite import Applied, RewriteError, rewrite
from rushlight.ir.verify import InvalidGraph, verify_graph, verify_node

X = buffer_node(None, (4,), float32)
Y = buffer_node(None, (4,), float32)
M = buffer_node(None, (4, 4), float32)
x, y = Any("x"), Any("y")

ADD_ZERO = Rule("add_zero", Op("add", x, Const(0), commutes=True), lambda x: x)
EXP_OF_LOG = Rule("exp_of_log", Op("exp", Op("log", x)), lambda x: x)


def zero_plus(node: Node) -> Node:
    return ops.add(const_node(0.0, float32), node)


def test_records_accept_what_they_built() -> None:
    verify_graph([ops.reduce_sum(ops.exp(ops.mul(X, Y)), (0,))])


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [((5,), float32, r"gives shape \[4\]"), ((4,), float64, "gives dtype f32")],
)
def test_a_wrong_shape_or_dtype_is_named(shape, dtype, message) -> None:
    good = ops.exp(X)
    bad = make_node(good.op, good.src, good.attrs, shape, dtype)
    with pytest.raises(InvalidGraph, match=f"exp.*{message}"):
        verify_node(bad)
    with pytest.raises(InvalidGraph, match=message):
        verify_graph([ops.log(bad)])


def test_ops_outside_of_the_set_are_named() -> None:
    graph = [ops.exp(ops.log(X))]
    verify_graph(graph, {"exp", "log"})
    with pytest.raises(InvalidGraph, match="log.* is not allowed here"):
        verify_graph(graph, {"exp"})
    with pytest.raises(InvalidGraph, match="not allowed"):
        verify_graph(graph, lambda record: record.kind == "reduce")


def test_a_cycle_is_found() -> None:
    first = ops.exp(buffer_node(None, (3,), float32))
    second = ops.log(first)
    first.src = (second,)
    with pytest.raises(InvalidGraph, match="reads itself"):
        verify_graph([second])


def test_rules_run_bottom_up_to_a_fixed_point() -> None:
    trace: list[Applied] = []
    root = ops.sin(ops.exp(zero_plus(ops.log(ops.add(X, const_node(0.0, float32))))))
    assert rewrite([root, X], [ADD_ZERO, EXP_OF_LOG], trace) == [ops.sin(X), X]
    assert [a.rule for a in trace] == ["add_zero", "add_zero", "exp_of_log"]
    assert all("test_verify_rewrite.py:" in a.defined_at for a in trace)
    assert "exp(" in str(trace[-1])


def test_what_no_rule_touches_stays_the_same_object() -> None:
    root = ops.sin(ops.mul(X, Y))
    assert rewrite([root], [ADD_ZERO]) == [root]


def test_a_replacement_is_rewritten_too() -> None:
    doubled = Rule("double", Op("mul", x, Const(2.0)), lambda x: ops.add(x, zero_plus(x)))
    assert rewrite([ops.mul(X, const_node(2.0, float32))], [doubled, ADD_ZERO]) == [ops.add(X, X)]


def test_a_name_that_occurs_twice_is_one_node() -> None:
    same = Rule("x_minus_x", Op("sub", x, x), lambda x: ops.mul(x, const_node(0.0, float32)))
    different = ops.sub(X, Y)
    assert rewrite([different], [same]) == [different]
    assert rewrite([ops.sub(X, X)], [same]) != [ops.sub(X, X)]


def test_when_and_attrs_guard_a_rule() -> None:
    total = ops.reduce_sum(M, (0,))
    kept = Rule("kept", Op("reduce_sum", x, attrs={"dims": lambda dims: 1 in dims}), lambda x: None)
    assert kept.pattern.find(total) is None
    assert kept.pattern.find(ops.reduce_sum(M, (1,))) == {"x": M}
    never = Rule("never", Op("exp|log", x), lambda x: x, when=lambda x: x is Y)
    assert rewrite([ops.exp(X), ops.log(Y)], [never]) == [ops.exp(X), Y]


def test_a_rule_must_keep_shape_and_dtype() -> None:
    wrong = Rule("wrong", Op("exp", x), lambda x: ops.reduce_sum(x, (0,)))
    with pytest.raises(
        RewriteError, match=r"rule wrong \(.*test_verify_rewrite.py:\d+\) turns exp"
    ):
        rewrite([ops.exp(X)], [wrong])


def test_rules_that_undo_each_other_are_found() -> None:
    there = Rule("there", Op("add", x, y), lambda x, y: ops.sub(x, ops.neg(y)))
    back = Rule("back", Op("sub", x, Op("neg", y)), lambda x, y: ops.add(x, y))
    with pytest.raises(RewriteError, match="round in circles.*"):
        rewrite([ops.add(X, Y)], [there, back])


def test_deep_graphs_are_fine() -> None:
    node = X
    for _ in range(5000):
        node = ops.sin(zero_plus(node))
    (result,) = rewrite([node], [ADD_ZERO])
    assert "add" not in {n.name for n in result.src}
