"""Which elements of a result the interpreter and numpy are compared in."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight import ops
from rushlight.base.dtypes import int8, int64, uint8
from rushlight.ops.time_loop import SAMPLE, sample_step, time_loop
from rushlight.testing.conformance.cases import leaf
from rushlight.testing.conformance.defined import counted
from rushlight.testing.conformance.run import _held


def counts(root) -> list[bool] | None:
    found = counted(root, _held)
    return None if found is None else found.tolist()


def test_casts_count_where_the_value_fits() -> None:
    x = leaf(np.array([127.9, 128.0, -128.9, -129.0, np.nan, np.inf], "float32"))
    assert counts(ops.cast(x, int8)) == [True, False, True, False, False, False]
    assert counts(ops.cast(x, uint8)) == [True, True, False, False, False, False]
    edge = leaf(np.array([2.0**63, -(2.0**63)]))
    assert counts(ops.cast(edge, int64)) == [False, True]


def test_all_elements_of_other_results_count() -> None:
    x = leaf(np.array([1, 2], "int32"))
    assert counts(ops.cast(x, int8)) is None
    assert counts(ops.mul(x, x)) is None


def test_quotients_and_angles_count_within_their_limits() -> None:
    whole = leaf(np.array([5, 6])), leaf(np.array([0, 2]))
    assert counts(ops.floor_divide(*whole)) == [False, True]
    x, y = leaf(np.array([1.0, 1.0], "float32")), leaf(np.array([1e-40, 0.3], "float32"))
    assert counts(ops.fmod(x, y)) == [False, True]
    angles = leaf(np.array([3e38, 1e10, np.inf], "float32"))
    assert counts(ops.sin(angles)) == [False, True, True]


def test_a_loop_whose_step_reads_another_dtype_is_refused() -> None:
    operands = [leaf(np.ones(3)), leaf(np.ones((4, 3)))]
    with pytest.raises(TypeError, match="operand 0 is float64, its step reads"):
        time_loop.node(operands=operands, **SAMPLE)
    assert time_loop.node(operands=operands, **SAMPLE | sample_step("f64")).shape == (15,)
