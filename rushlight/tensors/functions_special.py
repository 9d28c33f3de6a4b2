"""torch.special and other elementwise functions that are composed of records.

In: tensors (and numbers where PyTorch takes them). Out: values with gradients where PyTorch has
them. Orthogonal polynomials run their recurrence up to the largest order, which is looked at.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import DType, float64, int32
from rushlight.tensors.apply import apply, cast
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_math import or_tensor
from rushlight.tensors.functions_reduce import log_softmax, logsumexp, softmax
from rushlight.tensors.interop import look_at_all
from rushlight.tensors.numbers import INEXACT, Defaults, common_dtype
from rushlight.tensors.operands import checked, need_tensor
from rushlight.tensors.out import finish, write_out_all
from rushlight.tensors.results import result_class
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

Frexp = result_class("frexp", ("mantissa", "exponent"))


def _where(mask: Tensor, x: Any, y: Any) -> Tensor:
    return apply(ops.where, (mask, x, y))


def _floating(x: Any) -> Tensor:
    x = x if isinstance(x, Tensor) else tensor_of(x)
    return x if x._dtype.kind == "float" else apply(ops.cast, (x, Defaults.dtype))


def _both(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two operands as floating tensors of one dtype."""
    dtype = common_dtype(ops.atan2, (or_tensor(a, b), b))
    return tuple(  # type: ignore[return-value]
        apply(ops.cast, (x if isinstance(x, Tensor) else tensor_of(x), dtype)) for x in (a, b)
    )


def _to(x: Tensor, dtype: DType) -> Tensor:
    return x if x._dtype is dtype else apply(ops.cast, (x, dtype))


def _in_wide(function: Callable[[Tensor], Tensor]) -> Callable:
    """The public form of a function of one operand: narrow dtypes are computed in float32."""

    @functools.wraps(function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def public(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        x = _floating(input)
        return finish(_to(function(_to(x, x._dtype.compute)), x._dtype), out)

    del public.__wrapped__  # the signature is that of the public form
    return public


# One operand -------------------------------------------------------------------------------


def _plain(name: str) -> Callable:
    record = getattr(ops, name)

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        return finish(apply(record, (_floating(input),)), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = record.doc
    return function


_RECORDS = """i0 i0e i1 i1e erfcx airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1
scaled_modified_bessel_k0 scaled_modified_bessel_k1""".split()
PLAIN = {name: _plain(name) for name in _RECORDS}


@_in_wide
def modified_bessel_k0(x: Tensor) -> Tensor:
    """The modified Bessel function K0."""
    return PLAIN["scaled_modified_bessel_k0"](x) * apply(ops.exp, (-x,))


@_in_wide
def modified_bessel_k1(x: Tensor) -> Tensor:
    """The modified Bessel function K1."""
    return PLAIN["scaled_modified_bessel_k1"](x) * apply(ops.exp, (-x,))


@_in_wide
def spherical_bessel_j0(x: Tensor) -> Tensor:
    """sin(x) / x."""
    safe = _where(x == 0, 1.0, x)
    value = apply(ops.sin, (safe,)) / safe
    value = _where(x == 0, 1.0, _where(apply(ops.isinf, (x,)), 0.0, value))
    return value


@_in_wide
def entr(x: Tensor) -> Tensor:
    """-x log(x); 0 at 0, -inf below."""
    inside = -x * apply(ops.log, (_where(x > 0, x, 1.0),))
    value = _where(x > 0, inside, _where(x == 0, 0.0, -math.inf))
    return _where(apply(ops.isnan, (x,)), x, value)


@_in_wide
def ndtr(x: Tensor) -> Tensor:
    """The area under the standard normal curve up to x."""
    return apply(ops.erfc, (x * -math.sqrt(0.5),)) * 0.5


@_in_wide
def log_ndtr(x: Tensor) -> Tensor:
    """log(ndtr(x)), exact far to the left."""
    left = _where(x < 1, x, 1.0)
    low = apply(ops.log, (apply(ops.erfcx, (left * -math.sqrt(0.5),)) * 0.5,)) - left * left * 0.5
    right = _where(x < 1, 1.0, x)
    high = apply(ops.log1p, (apply(ops.erfc, (right * math.sqrt(0.5),)) * -0.5,))
    return _where(x < 1, low, high)


@_in_wide
def ndtri(p: Tensor) -> Tensor:
    """The x with ndtr(x) = p: Newton's steps on log(ndtr), from the tail's expansion."""
    inside = (p > 0) & (p < 1)
    held = _where(inside, p, 0.5)
    upper = held > 0.5
    tail = _where(upper, 1 - held, held)
    size = apply(ops.sqrt, (apply(ops.log, (tail.detach(),)) * -2,))
    x = (2.30753 + size * 0.27061) / (1 + size * (0.99229 + size * 0.04481)) - size
    target = apply(ops.log, (tail,))
    for _ in range(3):  # each step makes derivatives right by one order more
        ratio = apply(ops.erfcx, (x * -math.sqrt(0.5),)) * math.sqrt(math.pi / 2)
        x = x - (log_ndtr(x) - target) * ratio
    x = _where(upper, -x, x)
    edge = _where(p == 0, -math.inf, _where(p == 1, math.inf, math.nan))
    return _where(inside, x, edge)


def expit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logistic sigmoid."""
    return finish(apply(ops.sigmoid, (_floating(input),)), out)


def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(pi x) / (pi x)."""
    return finish(apply(ops.sinc, (_floating(input),)), out)


# Gamma functions ---------------------------------------------------------------------------


def zeta(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Hurwitz's zeta function: terms up to q + N >= 10, then Euler's and Maclaurin's formula."""
    x, q = _both(input, other)
    dtype = x._dtype
    x, q = _to(x, dtype.compute), _to(q, dtype.compute)
    least = float(np.nanmin(look_at_all(q.detach()))) if q.numel() else 0.0
    count = int(min(max(10 - math.floor(least), 10), 400)) if math.isfinite(least) else 10
    total = None
    for k in range(count):
        term = apply(ops.pow_, (q + k, -x))
        total = term if total is None else total + term
    far = q + count
    power = apply(ops.pow_, (far, -x))
    total = total + far * power / (x - 1) + power * 0.5
    factor, fall = x, power / far
    for k, b in enumerate((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)):
        total = total + factor * fall * b
        factor = factor * (x + 2 * k + 1) * (x + 2 * k + 2)
        fall = fall / (far * far)
    pole = (q <= 0) & (q == apply(ops.floor, (q,)))
    lost = (q <= 0) & (x != apply(ops.floor, (x,)))
    total = _where(pole, math.inf, _where(lost, math.nan, total))
    total = _where(x == 1, math.inf, _where(x < 1, math.nan, total))
    return finish(_to(total, dtype), out)


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    x = _floating(input)
    if n == 0:
        return finish(apply(ops.digamma, (x,)), out)
    if n == 1:
        return finish(apply(ops.trigamma, (x,)), out)
    terms = zeta(n + 1.0, _to(x, x._dtype.compute))
    return finish(_to(terms * ((-1.0) ** (n + 1) * math.factorial(n)), x._dtype), out)


def tensor_polygamma(self: Tensor, n: int) -> Tensor:
    """x.polygamma(n)."""
    return polygamma(n, self)


def multigammaln(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The multivariate log-gamma function of dimension p."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    x = _floating(input)
    total = None
    for j in range(p):
        part = apply(ops.lgamma, (x - j / 2,))
        total = part if total is None else total + part
    return finish(total + p * (p - 1) / 4 * math.log(math.pi), out)


def gammaln(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """lgamma."""
    return finish(apply(ops.lgamma, (_floating(input),)), out)


def gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularized lower incomplete gamma function P(a, x)."""
    a, x = _both(input, other)
    return finish(apply(ops.gammainc, (a, x, False)), out)


def gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularized upper incomplete gamma function Q(a, x)."""
    a, x = _both(input, other)
    return finish(apply(ops.gammainc, (a, x, True)), out)


# Two operands ------------------------------------------------------------------------------


def xlog1py(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """x log1p(y); 0 where x is 0 and y is no NaN."""
    x, y = _both(input, other)
    nothing = (x == 0) & (y == y)
    value = _where(nothing, 0.0, x) * apply(ops.log1p, (_where(nothing, 0.0, y),))
    grad_link = x * apply(ops.log1p, (_where(nothing, y.detach(), 0.0),))
    return finish(value + _where(nothing, grad_link, 0.0), out)


def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger; NaN only if both are."""
    return finish(_extreme(ops.maximum, input, other), out)


def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller; NaN only if both are."""
    return finish(_extreme(ops.minimum, input, other), out)


def _extreme(record: Any, a: Tensor, b: Tensor) -> Tensor:
    best = apply(record, (a, b))
    if best._dtype.kind != "float":
        return best
    return _where(apply(ops.isnan, (a,)), b, _where(apply(ops.isnan, (b,)), a, best))


def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 below zero, 1 above, `values` at zero."""
    need_tensor("heaviside", "input", 1, input)
    need_tensor("heaviside", "values", 2, values)
    if input._dtype is not values._dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return finish(apply(ops.heaviside, (input, values)), out)


def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input times 2 to the power of other."""
    if input._dtype.kind not in INEXACT or not other._dtype.is_integral:
        return finish(apply(ops.mul, (input, apply(ops.pow_, (2.0, other)))), out)
    dtype = input._dtype
    power = apply(ops.pow_, (2.0, cast(other, dtype.compute)))
    return finish(cast(apply(ops.mul, (cast(input, dtype.compute), power)), dtype), out)


def frexp(input: Tensor, *, out: Any = None) -> Any:
    """mantissa (in [0.5, 1)) and exponent: input = mantissa * 2**exponent."""
    if input._dtype.kind != "float":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    wide = apply(ops.cast, (input.detach(), float64))
    size = apply(ops.abs_, (wide,))
    plain = apply(ops.isfinite, (size,)) & (size > 0)
    power = apply(ops.floor, (apply(ops.log2, (_where(plain, size, 1.0),)),)) + 1
    scaled = size * apply(ops.exp2, (-power,))
    power = power + _where(scaled >= 1, 1.0, 0.0) - _where(scaled < 0.5, 1.0, 0.0)
    power = _where(plain, power, 0.0)
    scale = apply(ops.cast, (apply(ops.exp2, (-power,)), input._dtype))
    return write_out_all(
        out, Frexp((_where(plain, input * scale, input), apply(ops.cast, (power, int32))))
    )


# Orthogonal polynomials --------------------------------------------------------------------

Step = Callable[[int, Tensor, Any, Any], Any]


def _polynomial(name: str, first: Callable, step: Step, shifted: bool = False) -> Callable:
    def function(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
        x, order = _both(input, n)
        whole = look_at_all(order.detach())
        top = int(whole.max()) if whole.size else 0
        order = apply(ops.trunc, (order,))
        x = x * 2 - 1 if shifted else x
        before, now = x * 0 + 1, first(x)
        result = _where(order == 0, before, _where(order < 0, 0.0, now))
        for k in range(2, top + 1):
            before, now = now, step(k, x, now, before)
            result = _where(order == k, now, result)
        return finish(result, out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of order n at x, by its recurrence."
    return function


def _chebyshev(k: int, x: Tensor, now: Any, before: Any) -> Any:
    return x * 2 * now - before


_FIRST = {
    "t": lambda x: x, "u": lambda x: x * 2, "v": lambda x: x * 2 - 1, "w": lambda x: x * 2 + 1
}  # fmt: skip
POLYNOMIALS = {
    **{f"{lead}chebyshev_polynomial_{kind}": _polynomial(
        f"{lead}chebyshev_polynomial_{kind}", first, _chebyshev, bool(lead))
       for kind, first in _FIRST.items() for lead in ("", "shifted_")},
    "hermite_polynomial_h": _polynomial(
        "hermite_polynomial_h", lambda x: x * 2,
        lambda k, x, now, before: x * 2 * now - before * (2 * (k - 1))),
    "hermite_polynomial_he": _polynomial(
        "hermite_polynomial_he", lambda x: x, lambda k, x, now, before: x * now - before * (k - 1)),
    "laguerre_polynomial_l": _polynomial(
        "laguerre_polynomial_l", lambda x: 1 - x,
        lambda k, x, now, before: ((2 * k - 1 - x) * now - before * (k - 1)) / k),
    "legendre_polynomial_p": _polynomial(
        "legendre_polynomial_p", lambda x: x,
        lambda k, x, now, before: (x * (2 * k - 1) * now - before * (k - 1)) / k),
}  # fmt: skip


SPECIAL: dict[str, Callable] = {
    **PLAIN, **POLYNOMIALS,
    **by_name(
        modified_bessel_k0, modified_bessel_k1, spherical_bessel_j0, entr, ndtr, log_ndtr, ndtri,
        expit, sinc, zeta, polygamma, multigammaln, gammaln, gammainc, gammaincc, xlog1py,
    ),
    "softmax": softmax, "log_softmax": log_softmax, "logsumexp": logsumexp,
    "modified_bessel_i0": PLAIN["i0"], "modified_bessel_i1": PLAIN["i1"],
}  # fmt: skip
SPECIAL = {name: checked(function, name) for name, function in SPECIAL.items()}
FUNCTIONS: dict[str, Callable] = {
    **by_name(polygamma, fmax, fmin, ldexp, frexp, heaviside),
    "i0": PLAIN["i0"], "mvlgamma": multigammaln, "igamma": gammainc, "igammac": gammaincc,
    **{f"special_{name}": function for name, function in SPECIAL.items()},
}  # fmt: skip
METHODS: dict[str, Callable] = {
    **{
        name: FUNCTIONS[name]
        for name in "fmax fmin ldexp frexp heaviside i0 mvlgamma igamma igammac".split()
    },
    "polygamma": tensor_polygamma,
}  # fmt: skip
