"""Which results may be written over which inputs of their kernel."""

from __future__ import annotations

import pytest

from rushlight.base.dtypes import float32
from rushlight.compiler.tile.inplace import Places
from rushlight.compiler.tile.ir import (
    Axis,
    Buffer,
    DotGrid,
    Grid,
    Local,
    Map,
    Program,
    Reduce,
    ReduceItem,
    Store,
)
from rushlight.ir import scalar as s

N = 8
A, B = Buffer("a", float32, N * N), Buffer("b", float32, N * N)
OLD, OTHER = Buffer("old", float32, N * N), Buffer("other", float32, N * N)
NEW, MORE = Buffer("new", float32, N * N, "out"), Buffer("more", float32, N * N, "out")
M, COLUMN, K = Axis("m", N), Axis("n", N), Axis("k", N)
HERE, TURNED = M.var * N + COLUMN.var, COLUMN.var * N + M.var


def program(*grids: object) -> Program:
    return Program("test", (A, B, OLD, OTHER, NEW, MORE), (), (), grids)  # type: ignore[arg-type]


def dot(*stores: Store, a: Buffer = A) -> DotGrid:
    left, right = s.load(a, M.var * N + K.var), s.load(B, K.var * N + COLUMN.var)
    return DotGrid((), M, COLUMN, K, left, right, float32, stores)


def step(at: object = HERE, old: Buffer = OLD, dest: Buffer = NEW) -> Store:
    """dest = old - acc"""
    return Store(dest, HERE, s.sub(s.load(old, at), s.acc(float32)))


def square(at: object = HERE) -> Grid:
    return Grid((), (Map((M, COLUMN), (Store(NEW, HERE, s.load(OLD, at)),)),))


def pair(*read: object) -> Grid:
    """Two results side by side, each from what lies at both places of the old pair."""
    value = s.add(*(s.load(OLD, at) for at in read))
    stores = tuple(Store(NEW, HERE * 2 + i, value) for i in range(2))
    return Grid((), (Map((M, COLUMN), stores),))


def copy_of_old() -> Grid:
    return Grid((), (Map((M, COLUMN), (Store(MORE, HERE, s.load(OLD, TURNED)),)),))


def row_update(reads_in_sum: bool) -> Grid:
    """new[m] = old[m] - sum(a[m]); the sum may read old, too."""
    total = Local("total", float32, (1,))
    summed = s.load(A, HERE)
    if reads_in_sum:
        summed = s.mul(summed, s.load(OLD, COLUMN.var))
    put = Store(NEW, M.var, s.sub(s.load(OLD, M.var), s.local(total, 0)))
    return Grid(
        (M,), (Reduce((), (COLUMN,), (ReduceItem("sum", summed, total, 0),)), Map((), (put,)))
    )


def finished_sums(second_reads_old: bool) -> Grid:
    """new[m] = old[m] + sum(a[m]), done to the sum itself; a second sum beside it."""
    finish = s.add(s.load(OLD, M.var), s.acc(float32))
    other = s.add(s.load(OLD if second_reads_old else OTHER, M.var), s.acc(float32))
    items = (
        ReduceItem("sum", s.load(A, HERE), NEW, M.var, finish),
        ReduceItem("sum", s.load(B, HERE), MORE, M.var, other),
    )
    return Grid((), (Reduce((M,), (COLUMN,), items),))


CASES = {
    "a map at the same place": (square(), True),
    "a map across": (square(TURNED), False),
    "what is done to a product": (dot(step()), True),
    "across in what is done": (dot(step(TURNED)), False),
    "an operand of the product": (dot(step(), a=OLD), False),
    "another store of the point": (dot(step(), step(dest=MORE)), True),
    "another store across": (dot(step(), step(TURNED, dest=MORE)), False),
    "two stores to the result": (dot(step(), step()), False),
    "two places of the point": (pair(HERE * 2, HERE * 2 + 1), True),
    "neither place of the point": (pair(HERE * 2, HERE * 2 + 2), False),
    "a place that needs the value": (
        dot(Store(NEW, s.as_index(s.load(OLD, TURNED), 0, N), s.acc(float32))), False),
    "an earlier grid": ((copy_of_old(), dot(step())), True),
    "a later grid": ((dot(step()), copy_of_old()), False),
    "a later grid that stores it": ((square(), copy_of_old()), False),
    "after a sum": (row_update(False), True),
    "in the sum": (row_update(True), False),
    "finished with it": (finished_sums(False), True),
    "two sums finished with it": (finished_sums(True), False),
}  # fmt: skip


@pytest.mark.parametrize(("grids", "expected"), CASES.values(), ids=CASES)
def test_a_result_over_what_is_read_only_there(grids, expected) -> None:
    grids = grids if isinstance(grids, tuple) else (grids,)
    assert Places(program(*grids)).reads_own_element(OLD, NEW) is expected


def test_what_a_result_is_made_from() -> None:
    both = program(dot(step(), step(old=OTHER, dest=MORE)))
    assert Places(both).distances(NEW) == {OLD: 1}
    assert Places(both).distances(MORE) == {OTHER: 1}
    assert Places(program(row_update(True))).distances(NEW) == {OLD: 1}
    value = s.mul(s.load(OLD, HERE), s.add(s.load(OTHER, HERE), s.load(OLD, HERE)))
    made = program(dot(Store(NEW, HERE, value)))
    assert Places(made).distances(NEW) == {OLD: 1, OTHER: 2}
