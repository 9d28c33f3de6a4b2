"""Reshape maps, strides and merged axes: the arithmetic agrees with numpy at every point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.compiler.tile.coords import linear, reshape_coords, strides_of, unravel
from rushlight.compiler.tile.ir import Axis
from rushlight.compiler.tile.merge_axes import coefficient, merge_axes
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_walk import evaluate, substitute, variables

Shape = tuple[int, ...]


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[Shape, Shape]:
    """Two shapes of equal product, cut from one list of factors, with unit dims put in."""
    factors = draw(st.lists(st.integers(2, 4), min_size=0, max_size=5))

    def cut() -> Shape:
        sizes = [1]
        for factor in factors:
            if draw(st.booleans()):
                sizes.append(factor)
            else:
                sizes[-1] *= factor
        for _ in range(draw(st.integers(0, 2))):
            sizes.insert(draw(st.integers(0, len(sizes))), 1)
        return tuple(sizes) if draw(st.booleans()) else tuple(n for n in sizes if n != 1)

    return cut(), cut()


def points(shape: Shape) -> itertools.product:
    return itertools.product(*map(range, shape))


@settings(max_examples=200, deadline=None)
@given(reshapes())
def test_reshape_coords_agree_with_numpy(pair: tuple[Shape, Shape]) -> None:
    shape, to = pair
    at = [Var(f"d{i}", 0, n - 1, "axis") for i, n in enumerate(shape)]
    moved = reshape_coords(at, shape, to)
    source = np.arange(math.prod(to)).reshape(to)
    for point, value in zip(points(shape), source.reshape(-1), strict=True):
        env = {f"d{i}": p for i, p in enumerate(point)}
        assert source[tuple(evaluate(m, env) for m in moved)] == value


@settings(max_examples=200, deadline=None)
@given(reshapes(), st.data())
def test_reshape_coords_with_variable_sizes(pair: tuple[Shape, Shape], data: st.DataObject) -> None:
    """Every distinct size may be a variable, as in a program that has seen two sizes."""
    shape, to = pair
    sizes = sorted(n for n in {*shape, *to} if n > 1)
    chosen = [n for n in sizes if data.draw(st.booleans())]
    names = {n: Var(f"s{n}", 2) for n in chosen}
    one = tuple(names.get(n, n) for n in shape)
    other = tuple(names.get(n, n) for n in to)
    at = [Var(f"d{i}", 0, n - 1, "axis") for i, n in enumerate(one)]
    moved = reshape_coords(at, one, other)
    source = np.arange(math.prod(to)).reshape(to)
    fixed = {f"s{n}": n for n in sizes}
    for point, value in zip(points(shape), source.reshape(-1), strict=True):
        env = {**fixed, **{f"d{i}": p for i, p in enumerate(point)}}
        assert source[tuple(evaluate(m, env) for m in moved)] == value


def axes(*shape: int | Expr) -> list[Expr]:
    return [Var(f"d{i}", 0, n - 1, "axis") for i, n in enumerate(shape)]


N, M = Var("N", 2), Var("M", 2)
B = axes(4, 6, 8)
S = axes(N, M, 8)


@pytest.mark.parametrize(
    ("at", "shape", "to", "expected"),
    [
        (B, (4, 6, 8), (4, 1, 6, 8), (B[0], 0, B[1], B[2])),
        (B, (4, 6, 8), (24, 8), (B[0] * 6 + B[1], B[2])),
        (B[:2], (4, 6), (4, 2, 3), (B[0], B[1] // 3, B[1] % 3)),
        (S, (N, M, 8), (N * M, 8), (S[0] * M + S[1], S[2])),
        (S, (N, M, 8), (N, M, 2, 4), (S[0], S[1], S[2] // 4, S[2] % 4)),
        ([B[0], 0], (4, 1), (4,), (B[0],)),
        ([], (), (1, 1), (0, 0)),
    ],
    ids=str,
)
def test_dims_that_correspond_keep_their_index(
    at: list, shape: tuple, to: tuple, expected: tuple
) -> None:
    """Division appears only where a reshape splits or joins."""
    assert reshape_coords(at, shape, to) == expected


def test_split_after_join_gives_the_coordinates_back() -> None:
    joined = reshape_coords(S, (N, M, 8), (N * M * 8,))
    assert reshape_coords(joined, (N * M * 8,), (N, M, 8)) == tuple(S)


def test_empty_shapes_have_coordinates_too() -> None:
    assert reshape_coords(axes(3, 0, 2), (3, 0, 2), (0, 6)) is not None
    assert unravel(B[0], (3, 0)) == (B[0], 0)


def test_strides_are_row_major() -> None:
    assert strides_of((4, N, 8)) == (N * 8, 8, 1)
    assert linear([S[0], S[2]], (8, 1)) == S[0] * 8 + S[2]


@pytest.mark.parametrize(
    ("at", "name", "expected"),
    [
        (S[0] * M + S[1], "d0", M),
        (S[0] * M + S[1], "d1", 1),
        (S[0] * M + S[1], "d2", 0),
        (S[1] // 2 + S[0], "d1", None),
        (S[0] * S[0], "d0", None),
        (5, "d0", 0),
    ],
    ids=str,
)
def test_coefficient_of_an_axis(at: int | Expr, name: str, expected: object) -> None:
    assert coefficient(at, name) == expected


# merging ------------------------------------------------------------


@st.composite
def merges(draw: st.DrawFn) -> tuple[Shape, list[list[int]]]:
    """Extents and the strides of several indices: some contiguous, some not."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    whole = list(strides_of(shape))
    strides = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 2))
        row = [
            0 if kind == 1 and draw(st.booleans()) else s * (2 if kind == 2 else 1) for s in whole
        ]
        strides.append(row)
    return shape, strides


@settings(max_examples=300, deadline=None)
@given(merges())
def test_merged_axes_visit_the_same_places_in_the_same_order(case: tuple) -> None:
    shape, strides = case
    old = [Axis(f"d{i}", n) for i, n in enumerate(shape)]
    indices = [linear([a.var for a in old], row) for row in strides]
    new, mapping, stands_for = merge_axes(old, indices)
    assert math.prod(a.extent for a in new) == math.prod(shape)
    before = [visit(old, at, {}) for at in indices]
    after = [visit(new, at, mapping) for at in indices]
    assert before == after
    assert set(stands_for) == set(mapping)


def visit(axes_: list[Axis], at: int | Expr, mapping: Mapping[str, int | Expr]) -> list[int]:
    moved = substitute(at, mapping)
    assert set(variables(moved)) <= {a.name for a in axes_}
    extents = [range(a.extent) for a in axes_]
    names = [a.name for a in axes_]
    return [evaluate(moved, dict(zip(names, p, strict=True))) for p in itertools.product(*extents)]


def test_contiguous_axes_become_one() -> None:
    old = [Axis("d0", N), Axis("d1", M), Axis("d2", 8)]
    flat = linear([a.var for a in old], strides_of((N, M, 8)))
    new, _, _ = merge_axes(old, [flat])
    assert [a.extent for a in new] == [N * M * 8]
    row = linear([old[0].var, old[2].var], (8, 1))  # repeated along d1
    assert len(merge_axes(old, [flat, row])[0]) == 3
