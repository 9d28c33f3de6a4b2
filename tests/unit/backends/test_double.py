"""Doubles made of integers have the bits of a machine's doubles.

The backend `c` builds them in place of its own; the interpreter, which uses the machine's, judges.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from rushlight import ops
from rushlight.backends import find_backend
from rushlight.backends.c.language import C
from rushlight.base.dtypes import ALL_DTYPES, float64
from rushlight.compiler.target import Missing
from rushlight.ir.node import Node
from rushlight.ir.opdef import all_ops
from rushlight.testing.conformance import Case, check, template_cases
from rushlight.testing.conformance.cases import leaf

pytestmark = pytest.mark.skipif(
    isinstance(find_backend("c").find(), Missing), reason="no C compiler here"
)
EDGES = np.array([
    0.0, -0.0, 1, -1, 2, -2.5, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.2e-308, -1e-310,
    1.8e308, -1.7e308, 0.5, 1.5, 2.5, 1e-8, 2.0**52 + 0.5, 2.0**53 + 2, -(2.0**63), 2.0**31,
    2.0**63, 1e19, 127.5, -129.0,
])  # fmt: skip
TEMPLATES = {case.name: case for case in template_cases()}


class Soft(C):
    soft_double = True


@pytest.fixture(autouse=True)
def soft(monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["rushlight.backends.c.build"], "C", Soft)


def operands() -> tuple[np.ndarray, np.ndarray]:
    """Any bits, near values, halves, and every pair of edges."""
    rng = np.random.default_rng(0)
    any_bits = rng.integers(0, 1 << 64, 4000, dtype=np.uint64)
    near = rng.standard_normal(500)
    halves = rng.integers(-50, 50, 500) * 0.5
    x = np.concatenate([any_bits.view(np.float64), near, halves, np.repeat(EDGES, EDGES.size)])
    y = np.concatenate([
        rng.permutation(any_bits).view(np.float64), near * (1 + 2.0**-50), halves[::-1],
        np.tile(EDGES, EDGES.size),
    ])  # fmt: skip
    return x, y


X, Y = operands()


def supported(build: Callable[[], list[Node]]) -> None:
    outcome = check(Case("double", "by hand", "float64", build), "c")
    assert outcome.status == "supported", outcome.text


@pytest.mark.parametrize("name", "add sub mul div maximum lt le gt ge eq ne".split())
def test_two_operands(name: str) -> None:
    supported(lambda: [all_ops()[name](leaf(X), leaf(Y))])


@pytest.mark.parametrize("name", "neg abs sqrt floor ceil trunc round".split())
def test_one_operand(name: str) -> None:
    supported(lambda: [all_ops()[name](leaf(X))])


@pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if d.kind != "complex"], ids=str)
def test_conversions(dtype) -> None:
    bits = np.random.default_rng(1).integers(0, 256, 8000, dtype=np.uint8)
    values = bits.astype(np.bool_) if dtype.kind == "bool" else bits.view(dtype.np)
    supported(lambda: [ops.cast(leaf(X), dtype), ops.cast(leaf(values), float64)])


def test_sums_of_products_round_once() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, 40, 40)) * np.exp2(rng.integers(-60, 60, (2, 40, 40)))
    supported(lambda: [ops.dot(leaf(a), leaf(b))])


@pytest.mark.parametrize("name", ["edges_float64", "sin_float64", "pow", "float_casts"])
def test_functions(name: str) -> None:
    outcome = check(TEMPLATES[name], "c")
    assert outcome.status == "supported", outcome.text


def test_a_wrong_rounding_is_found(monkeypatch) -> None:
    """Planted: ties go up in place of to even."""
    parts = sys.modules["rushlight.backends.cfamily.double.arithmetic"]
    plain = parts.call

    def off(helper, *args):
        found = plain(helper, *args)
        return found + 1 if helper.name == "f64_rounded" else found

    monkeypatch.setattr(parts, "call", off)
    parts.divide.cache_clear()
    build = sys.modules["rushlight.backends.cfamily.double"]._PLAIN["div"]
    build.cache_clear()
    try:
        sys.modules["rushlight.backends.cfamily.double"].soft_helper.cache_clear()
        case = Case("double", "planted", "float64", lambda: [ops.div(leaf(X), leaf(Y))])
        assert check(case, "c").status == "failed"
    finally:
        build.cache_clear()
        sys.modules["rushlight.backends.cfamily.double"].soft_helper.cache_clear()
