"""Sample arguments of records: read by tests only.

A `samples` field is a function rng -> list of `Sample`. Float arrays are float64, so that gradients
can be checked by finite differences; the tests make the other dtypes from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np


@dataclass(frozen=True)
class Sample:
    """Positional arguments (arrays, lists of arrays, None, numbers) and attributes by name."""

    args: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    # Names of operands that are not checked by finite differences (ties, step functions).
    skip: tuple[str, ...] = ()
    # Attributes that depend on the operands' dtype, from its short name ("f32").
    typed: Callable[[str], dict[str, Any]] | None = None


@dataclass(frozen=True)
class ErrorSample:
    """A call that must raise `error` with a text that holds `text`."""

    args: tuple[Any, ...]
    attrs: dict[str, Any]
    error: type[Exception]
    text: str


# As text: numpy loads its generators at the first use, and import must stay fast.
Rng: TypeAlias = "np.random.Generator"
Samples: TypeAlias = "Callable[[Rng], list[Sample]]"


def array(rng: Rng, *shape: int, low: float = -2, high: float = 2) -> np.ndarray:
    """Random doubles, distinct, away from whole numbers and halves (kinks of the records)."""
    n = int(np.prod(shape))
    values = np.linspace(low, high, n + 2)[1:-1] + rng.uniform(-0.2, 0.2, n) * (high - low) / (
        n + 2
    )
    near = np.abs(values * 2 - np.round(values * 2)) < 0.02
    values = np.where(near, values + 0.017, values)
    return rng.permutation(values).reshape(shape)


def complex_array(rng: Rng, *shape: int, low: float = -2, high: float = 2) -> np.ndarray:
    """Random complex doubles; the parts as in `array`."""
    return array(rng, *shape, low=low, high=high) + 1j * array(rng, *shape, low=low, high=high)


def whole(rng: Rng, *shape: int, low: int = 0, high: int = 5) -> np.ndarray:
    return rng.integers(low, high, shape, dtype=np.int64)


def truth(rng: Rng, *shape: int) -> np.ndarray:
    return rng.integers(0, 2, shape).astype(bool)


def unary(low: float, high: float, **attrs: Any) -> Samples:
    def build(rng: Rng) -> list[Sample]:
        shapes: Sequence[tuple[int, ...]] = ((3, 4), (), (0, 2), (1, 5))
        return [Sample((array(rng, *shape, low=low, high=high),), dict(attrs)) for shape in shapes]

    return build


def unary_int(low: int, high: int) -> Samples:
    return lambda rng: [Sample((whole(rng, *s, low=low, high=high),)) for s in ((3, 4), (), (0,))]


PAIRS = (((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)), ((0, 2), (2,)))


def binary(low: float = -2, high: float = 2, low2: float = 0.3, high2: float = 2) -> Samples:
    """Two broadcastable operands in their own ranges."""

    def build(rng: Rng) -> list[Sample]:
        return [
            Sample((array(rng, *a, low=low, high=high), array(rng, *b, low=low2, high=high2)))
            for a, b in PAIRS
        ]

    return build


def binary_int(low: int = 0, high: int = 8, low2: int = 1, high2: int = 6) -> Samples:
    def build(rng: Rng) -> list[Sample]:
        return [
            Sample((whole(rng, *a, low=low, high=high), whole(rng, *b, low=low2, high=high2)))
            for a, b in PAIRS
        ]

    return build


def reduction(rng: Rng) -> list[Sample]:
    """For primitives: a tuple of dims, never empty."""
    return [
        Sample((array(rng, 3, 4),), {"dims": (1,)}),
        Sample((array(rng, 2, 3, 2),), {"dims": (0, 2)}),
        Sample((array(rng, 5),), {"dims": (0,)}),
    ]


def reduction_bool(rng: Rng) -> list[Sample]:
    return [Sample((truth(rng, 3, 4),), {"dims": (1,)}), Sample((truth(rng, 6),), {"dims": (0,)})]


def over_dim(name: str = "dim", **attrs: Any) -> Samples:
    def build(rng: Rng) -> list[Sample]:
        return [
            Sample((array(rng, 3, 4),), {name: 1, **attrs}),
            Sample((array(rng, 4, 2, 3),), {name: 0, **attrs}),
            Sample((array(rng, 5),), {name: -1, **attrs}),
        ]

    return build
