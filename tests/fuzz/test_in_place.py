"""Memory that is given away is never read after it was overwritten.

The graphs here update a donated input while they read it in some other place or order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from fuzz_graphs import leaf_of
from fuzz_run import Setup, run, same_bits

import rushlight.ops as O
from rushlight.base.dtypes import float32, int64
from rushlight.engine.signature import record
from rushlight.ir.node import Node

rng = np.random.default_rng(0)


def floats(*shape: int) -> Node:
    return leaf_of(rng.standard_normal(shape).astype(np.float32), float32)


def places(count: int, high: int) -> Node:
    return leaf_of(rng.integers(0, high, count), int64)


def moved_in_itself(start: int, to: int) -> list[Node]:
    x = floats(100)
    return [O.slice_scatter_(x, O.slice_(x, (start,), (90,), (1,)), (to,), (90,), (1,))]


def reversed_in_itself() -> list[Node]:
    x = floats(100)
    return [O.slice_scatter_(x, O.flip(x, (0,)), (0,), (100,), (1,))]


def scattered_from_itself() -> list[Node]:
    x = floats(100, 30)
    return [O.scatter_nd(x, x, [places(100, 100)], "sum")]


def index_and_values_in_one() -> list[Node]:
    i = leaf_of(rng.permutation(100), int64)
    return [O.scatter_nd(i, i, [i], "set")]


def two_results_from_one() -> list[Node]:
    x, y = floats(5000), floats(5000)
    return [O.add(x, y), O.mul(x, y), O.sub(y, x)]


def read_in_another_order() -> list[Node]:
    x = floats(50, 50)
    return [O.add(x, 1.0), O.permute(x, (1, 0)), O.flip(x, (0,))]


def read_by_another_kernel() -> list[Node]:
    x = floats(80, 80)
    return [O.add(x, 1.0), O.reduce_sum(x, (0,)), O.dot(x, x)]


def updated_twice() -> list[Node]:
    x = floats(64)
    once = O.slice_scatter_(x, floats(5), (3,), (5,), (1,))
    return [O.slice_scatter_(once, O.slice_(x, (0,), (9,), (1,)), (30,), (9,), (1,)), once]


def updated_but_not_wanted() -> list[Node]:
    x, y = floats(100), floats(64, 30)
    once = O.slice_scatter_(x, floats(5), (3,), (5,), (1,))
    more = O.scatter_nd(y, floats(7, 30), [places(7, 64)], "sum")
    return [O.scan_sum(once, 0), O.scan_max(once, 0), O.dot(more, floats(30, 20))]


CASES: dict[str, Callable[[], list[Node]]] = {
    "moved up": lambda: moved_in_itself(0, 10),
    "moved down": lambda: moved_in_itself(10, 0),
    **{f.__name__: f for f in (
        reversed_in_itself, scattered_from_itself, index_and_values_in_one, two_results_from_one,
        read_in_another_order, read_by_another_kernel, updated_twice,
        updated_but_not_wanted,
    )},
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("kind", ["static", "symbolic"])
def test_overwriting_an_input_does_not_change_results(name: str, kind: str) -> None:
    roots = CASES[name]()
    plain = run(roots)
    sizes = frozenset(record(roots).ints) if kind == "symbolic" else frozenset()
    assert same_bits(run(roots, Setup(vary=sizes, donate=True)), plain) == ""
    assert same_bits(run(roots, Setup(vary=sizes, donate=True, threads=2)), plain) == ""
