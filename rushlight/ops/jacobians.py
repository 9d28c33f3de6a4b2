"""Products of vectors with the derivatives of products and of running sums of exponentials.

These are records of their own because the ordinary formulas (out / x, logarithms of both signs of
g) give the right numbers but not the right derivatives: of a product with zeros, and by a vector
that is 0. Their gradients are said by hand, without a loop over pairs of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rushlight.base.dtypes import int64
from rushlight.ir.opdef import Arg, Dim, Dims
from rushlight.ops.binary import div, eq, gt, logical_and, mul, ne
from rushlight.ops.build import full, keep, unreduce
from rushlight.ops.composite import composite
from rushlight.ops.late import late
from rushlight.ops.meta import Meta
from rushlight.ops.movement import flip
from rushlight.ops.rules import inexact_dtype, operand_shape
from rushlight.ops.samples import Rng, Sample, array, reduction
from rushlight.ops.select import cast, where
from rushlight.ops.unary import exp, isfinite, log


def reverse(x: Any, dim: int, running: Callable[[Any, int], Any]) -> Any:
    """A running result from each element to the end."""
    return flip(running(flip(x, (dim,)), dim), (dim,))


def later_sum(x: Any, dim: int) -> Any:
    """The sum from each element to the end."""
    return reverse(x, dim, late.scan_sum)


class Factors(NamedTuple):
    """The factors of products: which are 0, the others, and how many zeros each product has."""

    zero: Any
    safe: Any  # 1 in place of 0
    count: Any
    product: Any  # of those that are not 0


def factors(x: Any, join: Callable[[Any], Any], multiply: Callable[[Any], Any]) -> Factors:
    """`join` adds whole numbers over the factors of a product, `multiply` multiplies."""
    zero = eq(x, 0.0)
    safe = where(zero, full((), 1, x.dtype), x)
    return Factors(zero, safe, join(cast(zero, int64)), multiply(safe))


def _for_zeros(count: Any, many: int, value: Any) -> Any:
    return where(eq(count, many), value, 0.0)


# The products of all others over dims: y_i, the product of x_l over l != i ------------------------


def _others(x: Any, dims: tuple) -> Any:
    shape = x.shape
    f = factors(x, lambda v: late.reduce_sum(v, dims), lambda v: late.reduce_prod(v, dims))
    alone = unreduce(_for_zeros(f.count, 1, f.product), shape, dims)
    plain = div(unreduce(_for_zeros(f.count, 0, f.product), shape, dims), f.safe)
    return where(f.zero, alone, plain)


def _others_grad(g: Any, x: Any, dims: tuple, meta: Meta) -> tuple:
    """By x_j: the sum over i != j of g_i and the product of all but both."""
    shape = meta.shape("x")

    def total(v: Any) -> Any:
        return late.reduce_sum(v, dims)

    f = factors(x, total, lambda v: late.reduce_prod(v, dims))
    share = where(f.zero, 0.0, div(g, f.safe))
    zeros = where(f.zero, g, 0.0)
    none, one, two = (_for_zeros(f.count, n, f.product) for n in range(3))

    def spread(v: Any) -> Any:
        return unreduce(v, shape, dims)

    plain = mul(keep(total(share), shape, dims) - share, spread(none)) + spread(
        mul(total(zeros), one)
    )
    at_zero = spread(mul(total(share), one)) + mul(keep(total(zeros), shape, dims) - g, spread(two))
    return (where(f.zero, at_zero, div(plain, f.safe)),)


def _others_reference(x: np.ndarray, dims: tuple) -> np.ndarray:
    found = np.empty_like(x)
    for place in np.ndindex(x.shape):
        rest = x.copy()
        rest[place] = 1
        one = tuple(slice(None) if d in dims else i for d, i in enumerate(place))
        found[place] = np.prod(rest[one])
    return found


others = composite(
    "others",
    "The product of all other elements over dims.",
    (Arg("x"), Dims("dims")),
    _others,
    _others_reference,
    _others_grad,
    shape=operand_shape,
    dtype=inexact_dtype,
    samples=reduction,
)


# A vector by the derivative of running products ---------------------------------------------------


def _pull(vector: Any, x: Any, dim: int) -> Any:
    """Before the first 0 of a line: as if none were there; at it: the products of the others; after
    it nothing."""
    f = factors(x, lambda v: late.scan_sum(v, dim), lambda v: late.scan_prod(v, dim))
    first = logical_and(f.zero, eq(f.count, 1))
    at_first = later_sum(mul(vector, _for_zeros(f.count, 1, f.product)), dim)
    before = div(later_sum(mul(vector, _for_zeros(f.count, 0, f.product)), dim), f.safe)
    return where(first, at_first, where(eq(f.count, 0), before, 0.0))


def _pull_grad(g: Any, vector: Any, x: Any, dim: int, meta: Meta) -> tuple:  # noqa: ARG001
    """Of the sum over i and k >= i of g_i, vector_k and the product of x up to k without x_i."""
    f = factors(x, lambda n: late.scan_sum(n, dim), lambda n: late.scan_prod(n, dim))
    none, one, two = (_for_zeros(f.count, n, f.product) for n in range(3))
    share, zeros = where(f.zero, 0.0, div(g, f.safe)), where(f.zero, g, 0.0)
    share_sum, zero_sum = late.scan_sum(share, dim), late.scan_sum(zeros, dim)
    by_vector = mul(share_sum, none) + mul(zero_sum, one)

    def after(term: Any) -> Any:
        return later_sum(mul(vector, term), dim)

    plain = after(by_vector) - mul(share, after(none))
    at_zero = after(mul(share_sum, one) + mul(zero_sum, two)) - mul(g, after(two))
    return by_vector, where(f.zero, at_zero, div(plain, f.safe))


def _pull_reference(vector: np.ndarray, x: np.ndarray, dim: int) -> np.ndarray:
    vector, x = np.moveaxis(vector, dim, -1), np.moveaxis(x, dim, -1)
    found = np.zeros_like(x)
    for i in range(x.shape[-1]):
        rest = x.copy()
        rest[..., i] = 1
        found[..., i] = (vector * np.cumprod(rest, -1))[..., i:].sum(-1)
    return np.moveaxis(found, -1, dim)


def _pull_samples(rng: Rng) -> list[Sample]:
    return [Sample((array(rng, 3, 5), array(rng, 3, 5)), {"dim": 1}),
            Sample((array(rng, 4, 2), array(rng, 4, 2)), {"dim": 0})]  # fmt: skip


running_products_pull = composite(
    "running_products_pull",
    "A vector by the derivative of running products along dim.",
    (Arg("vector"), Arg("x"), Dim("dim")),
    _pull,
    _pull_reference,
    _pull_grad,
    shape=operand_shape,
    dtype=inexact_dtype,
    samples=_pull_samples,
)


# Vectors and the derivative exp(x_i - total_j), j >= i, of running sums of exponentials -----------


def _signed(vector: Any, running: Callable[[Any], Any], shift: Any, back: Any, on: Any) -> Any:
    """The running sums of vector exp(shift), times exp(back), by logarithms of both its signs."""
    parts = []
    for part in (vector, -vector):
        held = where(gt(part, 0.0), part, 1.0)
        share = where(logical_and(gt(part, 0.0), on), log(held) + shift, float("-inf"))
        parts.append(exp(running(share) + back))
    return parts[0] - parts[1]


def _later(vector: Any, x: Any, total: Any, dim: int) -> Any:
    found = _signed(vector, lambda v: reverse(v, dim, late.logcumsumexp), -total, x,
                    isfinite(total))  # fmt: skip
    return where(ne(x, float("-inf")), found, 0.0)


def _earlier(vector: Any, x: Any, total: Any, dim: int) -> Any:
    found = _signed(vector, lambda v: late.logcumsumexp(v, dim), x, -total, isfinite(x))
    return where(isfinite(total), found, 0.0)


def _later_grad(g: Any, vector: Any, x: Any, total: Any, out: Any, dim: int, meta: Meta) -> tuple:  # noqa: ARG001
    back = late.exp_of_earlier(g, x, total, dim)
    return back, mul(g, out), -mul(vector, back)


def _earlier_grad(g: Any, vector: Any, x: Any, total: Any, out: Any, dim: int, meta: Meta) -> tuple:  # noqa: ARG001
    back = late.exp_of_later(g, x, total, dim)
    return back, mul(vector, back), -mul(g, out)


def _weights(x: np.ndarray, total: np.ndarray, dim: int) -> np.ndarray:
    """exp(x_i - total_j) at [..., i, j], 0 for j < i."""
    rows, columns = np.moveaxis(x, dim, -1), np.moveaxis(total, dim, -1)
    return np.triu(np.exp(rows[..., :, None] - columns[..., None, :]))


def _later_reference(vector: np.ndarray, x: np.ndarray, total: np.ndarray, dim: int) -> np.ndarray:
    found = (_weights(x, total, dim) @ np.moveaxis(vector, dim, -1)[..., None])[..., 0]
    return np.moveaxis(found, -1, dim)


def _earlier_reference(
    vector: np.ndarray, x: np.ndarray, total: np.ndarray, dim: int
) -> np.ndarray:
    found = (np.moveaxis(vector, dim, -1)[..., None, :] @ _weights(x, total, dim))[..., 0, :]
    return np.moveaxis(found, -1, dim)


def _exp_samples(rng: Rng) -> list[Sample]:
    def one(*shape: int, dim: int) -> Sample:
        x = array(rng, *shape)
        total = np.logaddexp.accumulate(x, axis=dim)
        return Sample((array(rng, *shape), x, total), {"dim": dim})

    return [one(3, 4, dim=1), one(4, 2, dim=0)]


exp_of_later, exp_of_earlier = (
    composite(
        name,
        doc,
        (Arg("vector"), Arg("x"), Arg("total"), Dim("dim")),
        decompose,
        reference,
        grad,
        shape=operand_shape,
        dtype=inexact_dtype,
        samples=_exp_samples,
    )
    for name, doc, decompose, reference, grad in (
        ("exp_of_later", "The sum over j >= i of vector_j exp(x_i - total_j).", _later,
         _later_reference, _later_grad),
        ("exp_of_earlier", "The sum over i <= j of vector_i exp(x_i - total_j).", _earlier,
         _earlier_reference, _earlier_grad),
    )
)  # fmt: skip
