"""An index out of range is an error, whatever was compiled before."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz_graphs import leaf_of

import rushlight.ops as O
from rushlight.base.dtypes import float32, int64
from rushlight.engine import realize
from rushlight.ir.node import Node


def rows_by_position(count: int, size: int) -> Node:
    """x[0:count] by an iota that the kernel also uses as a value (so its expression lives on)."""
    x = leaf_of(np.ones((size, 3), np.float32), float32)
    i = O.iota(count, int64)
    return O.add(O.gather_nd(x, [i]), O.cast(O.reshape(i, (count, 1)), float32))


@pytest.mark.parametrize("counts", [(5, 20, 7), (20, 5), (7, 11)])
def test_a_range_that_fitted_does_not_excuse_a_longer_one(counts: tuple[int, ...]) -> None:
    for count in counts:
        node = rows_by_position(count, 10)
        if count > 10:
            with pytest.raises(IndexError):
                realize.read(node)
        else:
            assert realize.read(node)[:, 0].tolist() == [1.0 + i for i in range(count)]


@pytest.mark.parametrize("bad", [10, -1, 2**40])
@pytest.mark.parametrize("first", [True, False])
def test_the_failed_one_of_two_gathers_is_an_error(bad: int, first: bool) -> None:
    x = leaf_of(np.arange(30, dtype=np.float32).reshape(10, 3), float32)
    good = leaf_of(np.array([1, 2]), int64)
    wrong = leaf_of(np.array([0, bad]), int64)
    a, b = (wrong, good) if first else (good, wrong)
    with pytest.raises(IndexError):
        realize.read(O.add(O.gather_nd(x, [a]), O.gather_nd(x, [b])))


def test_memory_that_was_given_away_survives_a_failed_update() -> None:
    """The check fails in the kernel that updates: nothing is written outside of the buffer."""
    x = leaf_of(np.zeros((10, 3), np.float32), float32)
    at = leaf_of(np.array([3, 12, 4]), int64)
    node = O.scatter_nd(x, leaf_of(np.ones((3, 3), np.float32), float32), [at], "sum")
    with pytest.raises(IndexError):
        realize.read(node)
    assert realize.read(O.add(leaf_of(np.ones(4, np.float32), float32), 1.0)).tolist() == [2.0] * 4
