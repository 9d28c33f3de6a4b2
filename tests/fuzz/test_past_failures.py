"""Small graphs that random ones shrank to; each was computed wrongly, or not at all, once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from fuzz_graphs import leaf_of
from fuzz_run import Setup, difference, reference, run, same_bits

import rushlight.ops as O
from rushlight.base.dtypes import DType, bool_, float16, float32, int64
from rushlight.engine.signature import record
from rushlight.ir.node import Node

rng = np.random.default_rng(0)


def floats(*shape: int, dtype: DType = float32) -> Node:
    return leaf_of(rng.standard_normal(shape).astype(dtype.np), dtype)


def row_value_of_a_full_tile() -> list[Node]:
    """A reduced dim of size 1: the reshape lies in the rows, what it reads in the whole."""
    x = floats(7, 7, 1, dtype=float16)
    e = O.exp(x)
    total = O.reshape(O.reduce_sum(e, (2,)), (7, 7, 1))
    return [O.reshape(O.div(e, O.expand(total, (7, 7, 1))), (49,))]


def reduction_of_a_barrier() -> list[Node]:
    x = floats(2, 3)
    return [O.reduce_min(O.argsort_(x, 0, False), (0,)), O.reduce_max(O.scan_max(x, 1), (0,))]


def reshape_without_elements() -> list[Node]:
    x = floats(16, 13, 5, 0)
    return [O.reshape(x, (1, 16, 13, 0)), O.sub(x, x)]


def half_to_truth() -> list[Node]:
    return [O.cast(floats(16, 2, 7, dtype=float16), bool_)]


def position_without_rows() -> list[Node]:
    return [O.argmax_(floats(3, 0, 4), (2,))]


def softmax_of_variable_length() -> list[Node]:
    return [O.softmax(floats(13, 13), 1)]


def gather_of_variable_length() -> list[Node]:
    x = O.slice_(floats(65), (0,), (33,), (2,))
    return [O.gather_nd(x, [leaf_of(rng.integers(0, 33, 5), int64)])]


CASES: list[Callable[[], list[Node]]] = [
    row_value_of_a_full_tile,
    reduction_of_a_barrier,
    reshape_without_elements,
    half_to_truth,
    position_without_rows,
    softmax_of_variable_length,
    gather_of_variable_length,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_past_failure_is_computed(case: Callable[[], list[Node]]) -> None:
    roots = case()
    plain = run(roots)
    found = [difference(a, b, 2e-3) for a, b in zip(plain, reference(roots), strict=True)]
    assert found == [""] * len(roots)
    sizes = frozenset(record(roots).ints)
    assert same_bits(run(roots, Setup(vary=sizes, donate=True, threads=2)), plain) == ""
