"""Verification of graphs, patterns, rules and the rewrite driver."""

from __future__ import annotations

import pytest

from rushlight import ops
from rushlight.base.dtypes import float32, float64
from rushlight.ir.node import Node, buffer_node, const_node, make_node, topological
from rushlight.ir.pattern import Any, Const, Op, Rule
from rushlight.ir.rewrite import RewriteError, Rules
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


def rewritten(root: Node, *rules: Rule, told=None) -> Node:
    """Sources first, as a pass does it."""
    new: dict[Node, Node] = {}
    for node in topological([root]):
        if node.op is not None:
            src = tuple(new[source] for source in node.src)
            again = make_node(node.op, src, node.attrs, node.shape, node.dtype)
            new[node] = Rules(*rules).apply(again, told)
        else:
            new[node] = node
    return new[root]


def test_rules_run_until_none_fits() -> None:
    told: list[tuple[Rule, Node, Node]] = []
    root = ops.sin(ops.exp(zero_plus(ops.log(ops.add(X, const_node(0.0, float32))))))
    found = rewritten(
        root, ADD_ZERO, EXP_OF_LOG, told=lambda *application: told.append(application)
    )
    assert found is ops.sin(X)
    assert [rule.name for rule, _, _ in told] == ["add_zero", "add_zero", "exp_of_log"]
    assert all("test_verify_rewrite.py:" in rule.defined_at for rule, _, _ in told)


def test_what_no_rule_touches_stays_the_same_object() -> None:
    root = ops.sin(ops.mul(X, Y))
    assert rewritten(root, ADD_ZERO) is root


def test_a_replacement_is_rewritten_too() -> None:
    doubled = Rule("double", Op("mul", x, Const(2.0)), lambda x: zero_plus(ops.sin(x)))
    assert rewritten(ops.mul(X, const_node(2.0, float32)), doubled, ADD_ZERO) is ops.sin(X)


def test_a_rule_for_any_root_takes_its_turn() -> None:
    once = Rule("log_it", Any("x", when=lambda n: n.name == "exp"), lambda x: ops.log(x.src[0]))
    assert rewritten(ops.sin(ops.exp(X)), once, ADD_ZERO) is ops.sin(ops.log(X))


def test_a_name_that_occurs_twice_is_one_node() -> None:
    same = Rule("x_minus_x", Op("sub", x, x), lambda x: ops.mul(x, const_node(0.0, float32)))
    different = ops.sub(X, Y)
    assert rewritten(different, same) is different
    assert rewritten(ops.sub(X, X), same) is not ops.sub(X, X)


def test_when_and_attrs_guard_a_rule() -> None:
    total = ops.reduce_sum(M, (0,))
    kept = Rule("kept", Op("reduce_sum", x, attrs={"dims": lambda dims: 1 in dims}), lambda x: None)
    assert kept.pattern.find(total) is None
    assert kept.pattern.find(ops.reduce_sum(M, (1,))) == {"x": M}
    never = Rule("never", Op("exp|log", x), lambda x: x, when=lambda x: x is Y)
    assert rewritten(ops.exp(X), never) is ops.exp(X)
    assert rewritten(ops.log(Y), never) is Y


def test_a_rule_must_keep_shape_and_dtype() -> None:
    wrong = Rule("wrong", Op("exp", x), lambda x: ops.reduce_sum(x, (0,)))
    with pytest.raises(
        RewriteError, match=r"rule wrong \(.*test_verify_rewrite.py:\d+\) turns exp"
    ):
        rewritten(ops.exp(X), wrong)


def test_rules_that_undo_each_other_are_found() -> None:
    there = Rule("there", Op("add", x, y), lambda x, y: ops.sub(x, ops.neg(y)))
    back = Rule("back", Op("sub", x, Op("neg", y)), lambda x, y: ops.add(x, y))
    with pytest.raises(RewriteError, match="round in circles.*: there, back|back, there"):
        rewritten(ops.add(X, Y), there, back)


def test_a_rule_without_a_name_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match="rule 'add_zero' .*: names must be unique"):
        Rules(ADD_ZERO, ADD_ZERO)
    with pytest.raises(ValueError, match="rule '' "):
        Rules(Rule("", Op("exp", x), lambda x: x))
