"""CHECK: a pass that breaks a graph or a program, or changes a value, is caught and named."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.base.dtypes import float32
from rushlight.base.errors import PassError
from rushlight.compiler import pipeline
from rushlight.compiler.graph import decompose, simplify
from rushlight.compiler.lower import decompose_math
from rushlight.engine.check import find_difference
from rushlight.ir import scalar
from rushlight.ir.node import make_node
from rushlight.ir.passes import Pipeline, PipelineError
from rushlight.ir.pattern import Any, Op, Rule
from rushlight.ir.rewrite import Rules


def negate_twice():
    return torch.exp(-(torch.ones(8, 6) * 3.0)).sum(dim=1).tolist()


@pytest.fixture
def drop_negation(monkeypatch):
    """A rewrite that takes -x for x."""
    wrong = Rule("neg_is_nothing", Op("neg", Any("x")), lambda x: x)
    monkeypatch.setattr(simplify, "RULES", Rules(wrong))


def test_right_passes_are_accepted():
    with config.override(check=2):
        assert negate_twice()[0] == pytest.approx(6 * np.exp(-3.0))


def test_symbolic_sizes_are_checked_too(drop_negation):
    with config.override(check=0):
        for rows in (4, 5):
            (-(torch.ones(rows, 6) * 3.0)).tolist()
    with config.override(check=2), pytest.raises(PassError, match="decompose"):
        torch.exp(-(torch.ones(7, 6) * 3.0)).tolist()


def test_wrong_rewrite_is_named(drop_negation):
    with config.override(check=2), pytest.raises(PassError) as error:
        negate_twice()
    message = str(error.value)
    assert "the pass decompose changed the value of result " in message
    assert ": 120.513229" in message and " in place of 0.298722" in message and "8 of 8" in message


def test_wrong_rewrite_is_not_looked_for_below_2(drop_negation):
    with config.override(check=1):
        assert negate_twice()[0] == pytest.approx(6 * np.exp(3.0))


def test_wrong_tile_program_is_named(monkeypatch):
    wrong = {**decompose_math.BODIES, "exp": lambda x: scalar.add(x, scalar.const(1, x.dtype))}
    monkeypatch.setattr(decompose_math, "BODIES", wrong)
    with config.override(check=2, cache=False), pytest.raises(PassError) as error:
        negate_twice()
    assert "after the pass expand_math the tile program" in str(error.value)


def test_check_1_finds_a_wrong_shape(monkeypatch):
    def shrink(node, told):
        if node.name != "neg":
            return node
        return make_node(node.op, node.src, node.attrs, (1, *node.shape[1:]), node.dtype)

    monkeypatch.setattr(decompose, "simplify", shrink)
    with config.override(check=1), pytest.raises(PipelineError, match="after decompose: neg"):
        negate_twice()


def test_check_1_finds_a_composite_that_is_left(monkeypatch):
    monkeypatch.setattr(pipeline, "decompose", lambda roots, came_from, trace: list(roots))
    left = pytest.raises(PipelineError, match="after decompose: log_softmax")
    with config.override(check=1), left:
        torch.log_softmax(torch.ones(3, 4) * 2, 1).tolist()


def test_decompose_says_what_a_node_came_from():
    x = (torch.ones(3, 4) * 2)._value()
    root = torch.log_softmax(torch.ones(3, 4) * 2, 1)._value()
    came_from = {}
    (new,) = decompose.decompose([root], came_from)
    assert came_from[new] is root and came_from[new.src[0]] is root
    assert x is not root


def test_order_of_passes_is_checked_and_kinds_are_known():
    assert pipeline.PIPELINE.facts >= {"primitive", "basic", "plan"}
    with pytest.raises(PipelineError, match="'expand_math' requires tiles"):
        Pipeline("wrong", [step for step in pipeline.PASSES if step.name != "build_kernels"])
    assert {step.kind for step in pipeline.PASSES} == {
        "graph", "points", "groups", "tiles", "code", "plan"
    }  # fmt: skip


def test_difference_ignores_rounding_and_equal_nans():
    want = np.array([1.0, np.nan, np.inf, 0.0], np.float32)
    assert find_difference(want, want * np.float32(1 + 1e-6), float32) == ""
    assert "nan in place of 1.0 at [0], 1 of 4" in find_difference(
        want, np.array([np.nan, np.nan, np.inf, 0.0], np.float32), float32
    )
    assert "shape" in find_difference(want, want[:2], float32)
