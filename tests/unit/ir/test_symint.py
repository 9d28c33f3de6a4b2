"""Index expressions: whatever the simplifier does, the number stays the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.ir import scalar
from rushlight.ir.size_text import parse_size
from rushlight.ir.symint import Expr, Var, floordiv, is_less, is_nonnegative, mod, upper
from rushlight.ir.symint_math import ceildiv, maximum, minimum
from rushlight.ir.symint_walk import evaluate, substitute, variables

Env = dict[str, int]


@dataclass
class Pair:
    """An expression and the plain computation that it stands for."""

    expr: int | Expr
    plain: Callable[[Env], int]


N = Var("N", 1)
M = Var("M", 2)
O = Var("O", 0, None, "offset")  # noqa: E741
LEAVES = [
    Pair(N, lambda e: e["N"]),
    Pair(M, lambda e: e["M"]),
    Pair(O, lambda e: e["O"]),
    Pair(Var("i", 0, N - 1, "axis"), lambda e: e["i"]),
    Pair(Var("j", 0, M - 1, "axis"), lambda e: e["j"]),
    Pair(Var("k", 0, 5, "axis"), lambda e: e["k"]),
    Pair(Var("s", -3, 4, "value"), lambda e: e["s"]),
]


@st.composite
def environments(draw: st.DrawFn) -> Env:
    env = {"N": draw(st.integers(1, 12)), "M": draw(st.integers(2, 9))}
    env["O"] = draw(st.integers(0, 20))
    env["i"] = draw(st.integers(0, env["N"] - 1))
    env["j"] = draw(st.integers(0, env["M"] - 1))
    env["k"] = draw(st.integers(0, 5))
    env["s"] = draw(st.integers(-3, 4))
    return env


BINARY: dict[str, tuple[Callable, Callable]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "min": (minimum, min),
    "max": (maximum, max),
}
DIVISORS = [
    Pair(1, lambda e: 1),
    Pair(3, lambda e: 3),
    Pair(4, lambda e: 4),
    Pair(N, lambda e: e["N"]),
    Pair(M, lambda e: e["M"]),
    Pair(N * M, lambda e: e["N"] * e["M"]),
    Pair(N * 2, lambda e: e["N"] * 2),
    Pair(M + 1, lambda e: e["M"] + 1),
]


def combine(name: str, a: Pair, b: Pair) -> Pair:
    build, plain = BINARY[name]
    return Pair(build(a.expr, b.expr), lambda e: plain(a.plain(e), b.plain(e)))


def divide(name: str, a: Pair, d: Pair) -> Pair:
    if name == "floordiv":
        return Pair(floordiv(a.expr, d.expr), lambda e: a.plain(e) // d.plain(e))
    if name == "ceildiv":
        return Pair(ceildiv(a.expr, d.expr), lambda e: -(-a.plain(e) // d.plain(e)))
    return Pair(mod(a.expr, d.expr), lambda e: a.plain(e) % d.plain(e))


def constant(value: int) -> Pair:
    return Pair(value, lambda e: value)


leaves = st.one_of(st.sampled_from(LEAVES), st.integers(-4, 9).map(constant))
pairs = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(combine, st.sampled_from(list(BINARY)), inner, inner),
        st.builds(combine, st.sampled_from(["add", "mul"]), inner, inner),
        st.builds(
            divide, st.sampled_from(["floordiv", "mod", "ceildiv"]), inner,
            st.sampled_from(DIVISORS),
        ),
    ),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(pairs, st.lists(environments(), min_size=1, max_size=6))
def test_simplified_expressions_keep_their_value(pair: Pair, envs: list[Env]) -> None:
    for env in envs:
        assert evaluate(pair.expr, env) == pair.plain(env), pair.expr


@settings(max_examples=400, deadline=None)
@given(pairs, st.lists(environments(), min_size=1, max_size=6))
def test_text_is_read_back_as_the_same_number(pair: Pair, envs: list[Env]) -> None:
    """Plans on disk keep their sizes as text."""
    again = parse_size(str(pair.expr), {leaf.expr.name: leaf.expr for leaf in LEAVES})
    for env in envs:
        assert evaluate(again, env) == pair.plain(env), str(pair.expr)


def test_a_divisor_that_is_a_product_is_read_back_whole() -> None:
    where = floordiv(O, N * M) + mod(O, N * 2)
    again = parse_size(str(where), {"O": O, "N": N, "M": M})
    assert again == where, str(where)


@settings(max_examples=300, deadline=None)
@given(pairs, pairs, st.lists(environments(), min_size=1, max_size=6))
def test_what_is_proved_is_true(a: Pair, b: Pair, envs: list[Env]) -> None:
    high = upper(a.expr)
    for env in envs:
        value = a.plain(env)
        if is_nonnegative(a.expr):
            assert value >= 0, a.expr
        if is_less(a.expr, b.expr):
            assert value < b.plain(env), (a.expr, b.expr)
        if high is not None and set(variables(high)) <= set(env):
            assert value <= evaluate(high, env), (a.expr, high)


@settings(max_examples=150, deadline=None)
@given(pairs, st.integers(0, 5), environments())
def test_substitution_is_evaluation_with_that_value(pair: Pair, k: int, env: Env) -> None:
    fixed = substitute(pair.expr, {"k": k})
    assert "k" not in variables(fixed)
    assert evaluate(fixed, env) == pair.plain({**env, "k": k})


i, j = Var("i", 0, N - 1, "axis"), Var("j", 0, M - 1, "axis")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (floordiv(i * M + j, M), i),
        (mod(i * M + j, M), j),
        (floordiv(i * M + j, M) * M + mod(i * M + j, M), i * M + j),
        (mod(j, M), j),
        (floordiv(j, M), 0),
        (floordiv(N * M, M), N),
        (minimum(i, N), i),
        (maximum(i + 1, 0), i + 1),
        (floordiv(floordiv(O, 4), 8), floordiv(O, 32)),
        ((O // 7) * 7 + O % 7, O),
        ((O // M) * M * 3 + (O % M) * 3, O * 3),
    ],
    ids=str,
)
def test_index_maps_become_simple(expr: int | Expr, expected: int | Expr) -> None:
    assert expr == expected


def test_division_is_not_simplified_without_proof() -> None:
    assert floordiv(i, M) != 0
    assert mod(i + j, M) != i + j
    assert not is_nonnegative(i - 1)


def test_variables_of_one_name_with_other_bounds_are_different() -> None:
    """Every kernel calls its axes d0, d1, ...: what is known of one is not true of another."""
    short, long = Var("d0", 0, 4, "axis"), Var("d0", 0, 19, "axis")
    assert short == Var("d0", 0, 4, "axis")
    assert short != long
    kept = scalar.index(short)
    assert scalar.index(long) is not kept
    assert mod(scalar.index(long).meta, 8) != long
    assert is_less(short, 10) and not is_less(long, 10)
