"""Composite elementwise maths: clamp, lerp, addcmul, logaddexp, nan_to_num and their like."""

from __future__ import annotations

from collections.abc import Callable
from math import log as math_log
from math import pi
from typing import Any

import numpy as np

from rushlight.ir.opdef import FROM_DECOMPOSITION, Arg, Attr, NotDifferentiable, Value
from rushlight.ops import reference as ref
from rushlight.ops import samples
from rushlight.ops.binary import (
    eq,
    ge,
    gt,
    le,
    logical_and,
    logical_or,
    lt,
    maximum,
    minimum,
    sub,
)
from rushlight.ops.build import conj_of, full, like, real_of
from rushlight.ops.complex import complex_, imag, real
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
from rushlight.ops.rules import bool_dtype, common_dtype, inexact_dtype
from rushlight.ops.samples import Rng, Sample, array
from rushlight.ops.select import where
from rushlight.ops.unary import (
    STEP,
    abs_,
    exp,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    reciprocal,
    sigmoid,
    sin,
    sqrt,
    torch_names,
    trunc,
)


def clamp_decompose(x: Any, min: Any = None, max: Any = None) -> Any:  # noqa: A002
    if min is not None:
        x = maximum(x, min)
    return x if max is None else minimum(x, max)


def clamp_reference(x: np.ndarray, min: Any, max: Any) -> np.ndarray:  # noqa: A002
    if min is not None:
        x = np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def clamp_grad(g: Any, x: Any, min: Any, max: Any, meta: Meta) -> tuple:  # noqa: A002
    """x gets g inside the bounds and on them; a bound gets it where it is the result."""
    if min is None:
        return where(le(x, max), g, 0.0), None, where(gt(x, max), g, 0.0)
    if max is None:
        return where(ge(x, min), g, 0.0), where(lt(x, min), g, 0.0), None
    within = logical_and(ge(x, min), le(x, max))
    low = logical_and(lt(min, max), lt(x, min))
    high = logical_or(gt(x, max), lt(max, min))
    return where(within, g, 0.0), where(low, g, 0.0), where(high, g, 0.0)


clamp = composite(
    "clamp",
    "x not below min and not above max (max wins).",
    (Arg("x"), Arg("min", optional=True), Arg("max", optional=True)),
    clamp_decompose,
    clamp_reference,
    clamp_grad,
    dtype=common_dtype,
    compute_f32=False,
    torch=(*torch_names("clamp"), *torch_names("clip")),
    cheap=True,
    samples=lambda rng: [
        Sample((array(rng, 3, 4), array(rng, 4, low=-1.5, high=0), array(rng, 3, 1, low=0.1))),
        Sample((array(rng, 3, 4), None, array(rng))),
        Sample((array(rng, 5), array(rng, 5), None)),
    ],
    pair="clamp is not supported for complex types",
)


def lerp_decompose(x: Any, end: Any, weight: Any) -> Any:
    """From the nearer end, as PyTorch."""
    span = end - x
    near = x + weight * span
    return where(lt(abs_(weight), 0.5), near, end - span * (1.0 - weight))


lerp = composite(
    "lerp",
    "x + weight * (end - x).",
    (Arg("x"), Arg("end"), Arg("weight")),
    lerp_decompose,
    lambda x, end, weight: x + weight * (end - x),
    lambda g, x, end, weight, meta: (
        g * (1.0 - conj_of(weight)),
        g * conj_of(weight),
        g * conj_of(end - x),
    ),
    dtype=inexact_dtype,
    torch=torch_names("lerp"),
    samples=lambda rng: [Sample((array(rng, 3, 4), array(rng, 4), array(rng, 3, 1, low=0)))],
)


def _three(rng: Rng) -> list[Sample]:
    last = array(rng, 3, 1, low=0.4, high=2)
    return [Sample((array(rng, 3, 4), array(rng, 4), last, 0.7))]


addcmul = composite(
    "addcmul",
    "x + value * a * b.",
    (Arg("x"), Arg("tensor1"), Arg("tensor2"), Value("value", 1)),
    lambda x, tensor1, tensor2, value: x + like(value, x.dtype) * tensor1 * tensor2,
    lambda x, tensor1, tensor2, value: (x + ref.factor(value, x) * tensor1 * tensor2).astype(
        x.dtype
    ),
    dtype=common_dtype,
    torch=torch_names("addcmul"),
    samples=_three,
)
addcdiv = composite(
    "addcdiv",
    "x + value * a / b.",
    (Arg("x"), Arg("tensor1"), Arg("tensor2"), Value("value", 1)),
    lambda x, tensor1, tensor2, value: x + like(value, x.dtype) * (tensor1 / tensor2),
    lambda x, tensor1, tensor2, value: x + value * tensor1 / tensor2,
    dtype=inexact_dtype,
    torch=torch_names("addcdiv"),
    samples=_three,
)
rsub = composite(
    "rsub",
    "other - x.",
    (Arg("x"), Arg("other")),
    lambda x, other: sub(other, x),
    lambda x, other: other - x,
    dtype=common_dtype,
    compute_f32=False,
    torch=("torch.rsub",),
    samples=samples.binary(),
    cheap=True,
)
hypot = composite(
    "hypot",
    "sqrt(x*x + y*y) without overflow.",
    (Arg("x"), Arg("y")),
    lambda x, y: _hypot(x, y),
    np.hypot,
    lambda g, x, y, out, meta: (g * (x / out), g * (y / out)),
    torch=torch_names("hypot"),
    samples=samples.binary(),
)


def _hypot(x: Any, y: Any) -> Any:
    x, y = abs_(x), abs_(y)
    large, small = maximum(x, y), minimum(x, y)
    plain = logical_or(eq(large, 0.0), isinf(large))
    ratio = where(plain, 0.0, small / where(plain, 1.0, large))
    return where(logical_or(isinf(x), isinf(y)), float("inf"), large * sqrt(ratio * ratio + 1.0))


def logaddexp_decompose(x: Any, y: Any) -> Any:
    """From the larger one (the one with the larger real part)."""
    if x.dtype.is_complex:
        larger = ge(real_of(x), real_of(y))
        return where(larger, x, y) + log1p(exp(where(larger, y - x, x - y)))
    high = maximum(x, y)
    distance = where(logical_and(isinf(x), eq(x, y)), 0.0, -abs_(x - y))
    return high + log1p(exp(distance))


logaddexp = composite(
    "logaddexp",
    "log(exp(x) + exp(y)).",
    (Arg("x"), Arg("y")),
    logaddexp_decompose,
    lambda x, y: np.log(np.exp(x) + np.exp(y)) if x.dtype.kind == "c" else np.logaddexp(x, y),
    lambda g, x, y, meta: (g * sigmoid(conj_of(x - y)), g * sigmoid(conj_of(y - x))),
    dtype=inexact_dtype,
    torch=("torch.logaddexp", "Tensor.logaddexp"),
    samples=samples.binary(),
)
logaddexp2 = composite(
    "logaddexp2",
    "log2(2**x + 2**y).",
    (Arg("x"), Arg("y")),
    lambda x, y: logaddexp_decompose(x * math_log(2), y * math_log(2)) * (1 / math_log(2)),
    np.logaddexp2,
    lambda g, x, y, meta: (
        g * sigmoid((x - y) * math_log(2)),
        g * sigmoid((y - x) * math_log(2)),
    ),
    torch=("torch.logaddexp2", "Tensor.logaddexp2"),
    samples=samples.binary(),
)


def xlogy_decompose(x: Any, y: Any) -> Any:
    return where(isnan(y), y, where(eq(x, 0.0), 0.0, x * log(y)))


def xlogy_grad(g: Any, x: Any, y: Any, meta: Meta) -> tuple:
    dead = logical_and(eq(x, 0.0), le(y, 0.0))
    return where(dead, 0.0, g * log(where(dead, 1.0, y))), g * x / y


xlogy = composite(
    "xlogy",
    "x * log(y), 0 where x is 0.",
    (Arg("x"), Arg("y")),
    xlogy_decompose,
    lambda x, y: np.where(np.isnan(y), y, np.where(x == 0, 0, x * np.log(y))),
    xlogy_grad,
    torch=torch_names("xlogy"),
    promote="float",
    samples=samples.binary(),
)


def nan_to_num_decompose(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if x.dtype.is_complex:
        return complex_(*(nan_to_num_decompose(f(x), nan, posinf, neginf) for f in (real, imag)))
    if not x.dtype.is_floating_point:
        return x
    dtype = x.dtype
    x = where(isnan(x), like(nan, dtype), x)
    infinite = isinf(x)
    end = where(gt(x, 0.0), like(posinf, dtype), like(neginf, dtype))
    return where(infinite, end, x)


nan_to_num = composite(
    "nan_to_num",
    "NaN and infinities replaced (the public function fills in the dtype's extremes).",
    (Arg("x"), Value("nan", 0.0), Value("posinf"), Value("neginf")),
    nan_to_num_decompose,
    lambda x, nan, posinf, neginf: np.nan_to_num(x, True, nan, posinf, neginf),
    lambda g, x, meta: (where(isfinite(x), g, 0.0),),
    dtype=common_dtype,
    compute_f32=False,
    samples=lambda rng: [Sample((array(rng, 3, 4), 0.0, 9.0, -9.0))],
)
heaviside = composite(
    "heaviside",
    "0 below 0, 1 above, `values` at 0.",
    (Arg("x"), Arg("values")),
    lambda x, values: where(
        eq(x, 0), values, where(gt(x, 0), full((), 1, x.dtype), full((), 0, x.dtype))
    ),
    np.heaviside,
    STEP,
    dtype=common_dtype,
    compute_f32=False,
    torch=torch_names("heaviside"),
    samples=samples.binary(),
    pair="heaviside is not yet implemented for complex tensors.",
)
frac = composite(
    "frac",
    "x less its whole part.",
    (Arg("x"),),
    lambda x: x - trunc(x),
    lambda x: x - np.trunc(x),
    lambda g: (g,),
    torch=torch_names("frac"),
    samples=samples.unary(-3, 3),
)


def isclose_decompose(x: Any, other: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    same = eq(x, other)
    if equal_nan:
        same = logical_or(same, logical_and(isnan(x), isnan(other)))
    allowed = like(atol, x.dtype) + abs_(other * like(rtol, x.dtype))
    error = abs_(x - other)
    return logical_or(same, logical_and(isfinite(error), le(error, allowed)))


isclose = composite(
    "isclose",
    "True where |x - other| <= atol + rtol * |other|.",
    (
        Arg("x"),
        Arg("other"),
        Value("rtol", 1e-5),
        Value("atol", 1e-8),
        Attr("equal_nan", False),
    ),
    isclose_decompose,
    lambda x, other, rtol, atol, equal_nan: np.isclose(x, other, rtol, atol, equal_nan),
    NotDifferentiable("the output is a truth value"),
    dtype=bool_dtype,
    torch=("torch.isclose", "Tensor.isclose"),
    compute_f32=False,
    samples=lambda rng: [Sample((array(rng, 3), array(rng, 3), 0.5, 0.1), {"equal_nan": True})],
)


def _sinc(x: Any) -> Any:
    zero = eq(x, 0.0)
    angle = where(zero, 1.0, x * pi)
    return where(zero, 1.0, sin(angle) / angle)


def _simple(name: str, doc: str, decompose: Callable, reference: Callable, **fields: Any) -> Any:
    fields.setdefault("samples", samples.unary(-3, 3))
    fields.setdefault("torch", torch_names(name))
    fields.setdefault("promote", "float")
    grad = fields.pop("grad", FROM_DECOMPOSITION)
    return composite(name, doc, (Arg("x"),), decompose, reference, grad, **fields)


# fmt: off
deg2rad = _simple("deg2rad", "Degrees to radians.", lambda x: x * (pi / 180), np.deg2rad)
rad2deg = _simple("rad2deg", "Radians to degrees.", lambda x: x * (180 / pi), np.rad2deg)
sinc = _simple("sinc", "sin(pi x) / (pi x), 1 at 0.", _sinc, np.sinc, dtype=inexact_dtype)
isposinf = _simple("isposinf", "True where plus infinity.",
                   lambda x: logical_and(isinf(x), gt(x, 0)), np.isposinf, grad=STEP,
                   dtype=bool_dtype, compute_f32=False, promote="same",
                   torch=torch_names("isposinf", False),
                   pair="isposinf does not support complex inputs.")
isneginf = _simple("isneginf", "True where minus infinity.",
                   lambda x: logical_and(isinf(x), lt(x, 0)), np.isneginf, grad=STEP,
                   dtype=bool_dtype, compute_f32=False, promote="same",
                   torch=torch_names("isneginf", False),
                   pair="isneginf does not support complex inputs.")
# fmt: on


def logit_decompose(x: Any, eps: Any = None) -> Any:
    if eps is not None:
        x = minimum(maximum(x, eps), 1.0 - eps)
    return log(x / (1.0 - x))


def logit_grad(g: Any, x: Any, eps: Any, meta: Meta) -> tuple:
    slope = g / (x * (1.0 - x))
    if eps is None:
        return (where(logical_and(ge(x, 0.0), le(x, 1.0)), slope, float("nan")),)
    return (where(logical_and(ge(x, eps), le(x, 1.0 - eps)), slope, 0.0), None)


logit = composite(
    "logit",
    "log(x / (1 - x)); with eps, x is clamped to [eps, 1 - eps] first.",
    (Arg("x"), Arg("eps", optional=True)),
    logit_decompose,
    lambda x, eps: (lambda y: np.log(y / (1 - y)))(x if eps is None else np.clip(x, eps, 1 - eps)),
    logit_grad,
    torch=torch_names("logit"),
    promote="float",
    samples=lambda rng: [
        Sample((array(rng, 3, 4, low=0.02, high=0.98), None)),
        Sample((array(rng, 8, low=0, high=1), np.float64(0.2)), skip=("eps",)),
    ],
)


def trigamma_decompose(x: Any) -> Any:
    """Eight steps up, then the asymptotic series; reflected below one half."""
    low = lt(x, 0.5)
    z = where(low, 1.0 - x, x)
    total = None
    for step in range(8):
        term = reciprocal((z + float(step)) * (z + float(step)))
        total = term if total is None else total + term
    inverse = reciprocal(z + 8.0)
    y = inverse * inverse
    series = 1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * (5 / 66))))
    total = total + inverse + y * 0.5 + y * inverse * series
    sine = sin(where(low, x, 0.5) * pi)
    return where(low, reciprocal(sine * sine) * (pi * pi) - total, total)


trigamma = _simple("trigamma", "The derivative of digamma.", trigamma_decompose, ref.trigamma,
                   torch=(), samples=samples.unary(0.1, 4))  # fmt: skip
