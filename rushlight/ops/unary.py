"""Elementwise primitives of one operand.

A `scalar` is the name of a math function of rushlight.ir.scalar, or a function that builds the
expression for one element (float32, float64, int or bool; never bfloat16 or float16).
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_, float32, int32, int64
from rushlight.ir import scalar as s
from rushlight.ir.opdef import Arg, NotDifferentiable, OpDef, op
from rushlight.ops import complex_math, samples
from rushlight.ops import complex_pairs as pairs
from rushlight.ops import reference as ref
from rushlight.ops.build import conj_of
from rushlight.ops.late import late
from rushlight.ops.meta import Meta
from rushlight.ops.rules import (
    bool_dtype,
    const,
    elementwise_shape,
    float_dtype,
    inexact_dtype,
    integral_dtype,
    operand_dtype,
    size_dtype,
)

STEP = NotDifferentiable("the output is a step function of whole numbers or truth values")


def torch_names(name: str, in_place: bool = True) -> tuple[str, ...]:
    """torch.x, Tensor.x and Tensor.x_."""
    names = (f"torch.{name}", f"Tensor.{name}")
    return (*names, f"Tensor.{name}_") if in_place else names


def _unary(
    name: str, doc: str, scalar: Any, reference: Callable, grad: Any, **fields: Any
) -> OpDef:
    fields.setdefault("dtype", float_dtype)
    fields.setdefault("torch", torch_names(name))
    fields.setdefault("samples", samples.unary(-3, 3))
    if fields["dtype"] is float_dtype:
        fields.setdefault("promote", "float")
    return op(
        name=name, doc=doc, inputs=(Arg("x"),), shape=elementwise_shape, scalar=scalar,
        reference=reference, grad=grad, **fields,
    )  # fmt: skip


def _inexact(
    name: str, doc: str, scalar: Any, reference: Callable, grad: Any, pair: Callable, **fields: Any
) -> OpDef:
    """A function of floating point and of complex numbers."""
    return _unary(
        name, doc, scalar, reference, grad, dtype=inexact_dtype, promote="float", pair=pair,
        **fields,
    )  # fmt: skip


def _whole(build: Callable[[s.E], s.E]) -> Callable[[s.E], s.E]:
    """Rounding functions leave whole numbers alone."""
    return lambda x: build(x) if x.dtype.is_floating_point else x


def scalar_abs(x: s.E) -> s.E:
    return x if x.dtype.kind in ("bool", "uint") else s.abs_(x)


def scalar_sign(x: s.E) -> s.E:
    """0 for NaN, as PyTorch: (0 < x) - (x < 0)."""
    if x.dtype.kind == "bool":
        return x
    zero = s.const(0, x.dtype)
    positive = s.select(s.gt(x, zero), s.const(1, x.dtype), zero)
    if x.dtype.kind == "uint":
        return positive
    return s.select(s.lt(x, zero), s.const(-1, x.dtype), positive)


def scalar_not(x: s.E) -> s.E:
    return s.bit_not(x) if x.dtype.kind == "bool" else s.eq(x, s.const(0, x.dtype))


def scalar_isnan(x: s.E) -> s.E:
    return s.is_nan(x) if x.dtype.is_floating_point else s.const(False, bool_)


def scalar_isinf(x: s.E) -> s.E:
    if not x.dtype.is_floating_point:
        return s.const(False, bool_)
    return s.eq(s.abs_(x), s.const(float("inf"), x.dtype))


def scalar_isfinite(x: s.E) -> s.E:
    if not x.dtype.is_floating_point:
        return s.const(True, bool_)
    return s.lt(s.abs_(x), s.const(float("inf"), x.dtype))


def scalar_signbit(x: s.E) -> s.E:
    if x.dtype.is_floating_point:
        whole = int32 if x.dtype is float32 else int64
        return s.lt(s.bitcast(x, whole), s.const(0, whole))
    if x.dtype.kind in ("bool", "uint"):
        return s.const(False, bool_)
    return s.lt(x, s.const(0, x.dtype))


def zero_grad(meta: Meta) -> tuple:
    return (late.expand(const(0, meta.out_dtype), meta.out_shape),)


positive_range = samples.unary(0.1, 4)
unit_range = samples.unary(-0.95, 0.95)


def _square(x: Any) -> Any:
    return x * x


def abs_grad(g: Any, x: Any, meta: Meta) -> tuple:
    """Real g times x / |x|."""
    dtype = meta.dtype("x")
    return (late.cast(g, dtype) * late.sgn(x) if dtype.is_complex else g * sign(x),)


def rsqrt_grad(g: Any, out: Any) -> tuple:
    out = conj_of(out)
    return (g * -0.5 * (out * out * out),)


def reciprocal_grad(g: Any, out: Any) -> tuple:
    return (-g * _square(conj_of(out)),)


def tan_grad(g: Any, out: Any) -> tuple:
    return (g * (_square(conj_of(out)) + 1.0),)


def acosh_grad(g: Any, x: Any, meta: Meta) -> tuple:
    """The roots apart, as the function has them: their product is not the root of x*x - 1."""
    x = conj_of(x)
    if not meta.dtype("x").is_complex:
        return (g * rsqrt(x * x - 1.0),)
    return (g * rsqrt(x - 1.0) * rsqrt(x + 1.0),)


# fmt: off

neg = _unary("neg", "Minus each element.", s.neg, np.negative, lambda g: (-g,),
             dtype=operand_dtype, cheap=True, pair=pairs.neg)
abs_ = _unary("abs", "The size of each element without its sign.", scalar_abs, np.abs,
              abs_grad, dtype=size_dtype, cheap=True, pair=pairs.absolute)
sign = _unary("sign", "-1, 0 or 1; 0 for NaN.", scalar_sign, ref.sign,
              zero_grad, dtype=operand_dtype, cheap=True,
              pair="Unlike NumPy, torch.sign is not intended to support complex numbers. Please use"
                   " torch.sgn instead.")
exp = _inexact("exp", "Raise e to each element.", "exp", np.exp,
               lambda g, out: (g * conj_of(out),), complex_math.exp)
exp2 = _inexact("exp2", "Raise 2 to each element.", "exp2", np.exp2,
                lambda g, out: (g * conj_of(out) * 0.6931471805599453,), complex_math.exp2)
expm1 = _inexact("expm1", "exp(x) - 1, exact near 0.", "expm1", np.expm1,
                 lambda g, out: (g * (conj_of(out) + 1.0),), complex_math.expm1)
log = _inexact("log", "The natural logarithm.", "log", np.log,
               lambda g, x: (g / conj_of(x),), complex_math.natural_log, samples=positive_range)
log2 = _inexact("log2", "The logarithm to base 2.", "log2", np.log2,
                lambda g, x: (g / (conj_of(x) * 0.6931471805599453),), complex_math.log2,
                samples=positive_range)
log10 = _inexact("log10", "The logarithm to base 10.", "log10", np.log10,
                 lambda g, x: (g / (conj_of(x) * 2.302585092994046),), complex_math.log10,
                 samples=positive_range)
log1p = _inexact("log1p", "log(1 + x), exact near 0.", "log1p", np.log1p,
                 lambda g, x: (g / (conj_of(x) + 1.0),), complex_math.log1p, samples=unit_range)
sqrt = _inexact("sqrt", "The square root.", s.sqrt, np.sqrt,
                lambda g, out: (g / (conj_of(out) * 2.0),), complex_math.sqrt,
                samples=positive_range)
rsqrt = _inexact("rsqrt", "One over the square root.", "rsqrt", lambda x: 1 / np.sqrt(x),
                 rsqrt_grad, complex_math.rsqrt, samples=positive_range)
reciprocal = _inexact("reciprocal", "One over each element.", lambda x: s.div(1.0, x),
                      lambda x: 1 / x, reciprocal_grad, pairs.reciprocal, samples=positive_range)
sin = _inexact("sin", "The sine (radians).", "sin", np.sin,
               lambda g, x: (g * cos(conj_of(x)),), complex_math.sin)
cos = _inexact("cos", "The cosine (radians).", "cos", np.cos,
               lambda g, x: (-g * sin(conj_of(x)),), complex_math.cos)
tan = _inexact("tan", "The tangent (radians).", "tan", np.tan, tan_grad, complex_math.tan,
               samples=samples.unary(-1.3, 1.3))
asin = _inexact("asin", "The inverse sine.", "asin", np.arcsin,
                lambda g, x: (g * rsqrt(1.0 - _square(conj_of(x))),), complex_math.asin,
                samples=unit_range)
acos = _inexact("acos", "The inverse cosine.", "acos", np.arccos,
                lambda g, x: (-g * rsqrt(1.0 - _square(conj_of(x))),), complex_math.acos,
                samples=unit_range)
atan = _inexact("atan", "The inverse tangent.", "atan", np.arctan,
                lambda g, x: (g / (_square(conj_of(x)) + 1.0),), complex_math.atan)
sinh = _inexact("sinh", "The hyperbolic sine.", "sinh", np.sinh,
                lambda g, x: (g * cosh(conj_of(x)),), complex_math.sinh)
cosh = _inexact("cosh", "The hyperbolic cosine.", "cosh", np.cosh,
                lambda g, x: (g * sinh(conj_of(x)),), complex_math.cosh)
tanh = _inexact("tanh", "The hyperbolic tangent.", "tanh", np.tanh,
                lambda g, out: (g * (1.0 - _square(conj_of(out))),), complex_math.tanh)
asinh = _inexact("asinh", "The inverse hyperbolic sine.", "asinh", np.arcsinh,
                 lambda g, x: (g * rsqrt(_square(conj_of(x)) + 1.0),), complex_math.asinh)
acosh = _inexact("acosh", "The inverse hyperbolic cosine.", "acosh", np.arccosh,
                 acosh_grad, complex_math.acosh, samples=samples.unary(1.1, 4))
atanh = _inexact("atanh", "The inverse hyperbolic tangent.", "atanh", np.arctanh,
                 lambda g, x: (g / (1.0 - _square(conj_of(x))),), complex_math.atanh,
                 samples=unit_range)
erf = _unary("erf", "The error function.", "erf", ref.erf,
             lambda g, x: (g * (2.0 / pi**0.5) * exp(-(x * x)),), pair='"erf_vml_cpu"')
erfc = _unary("erfc", "One minus the error function.", "erfc", ref.erfc,
              lambda g, x: (g * (-2.0 / pi**0.5) * exp(-(x * x)),), pair='"erfc_vml_cpu"')
erfinv = _unary("erfinv", "The inverse of the error function.", "erfinv", ref.erfinv,
                lambda g, out: (g * (0.5 * pi**0.5) * exp(out * out),), samples=unit_range)
digamma = _unary("digamma", "The derivative of lgamma.", "digamma", ref.digamma,
                 lambda g, x: (g * late.trigamma(x),), samples=positive_range,
                 pair='"digamma"')
lgamma = _unary("lgamma", "The logarithm of the absolute gamma function.", "lgamma", ref.lgamma,
                lambda g, x: (g * digamma(x),), samples=positive_range,
                pair='"lgamma_vml_cpu"')
sigmoid = _inexact("sigmoid", "1 / (1 + exp(-x)).", "sigmoid", ref.sigmoid,
                   lambda g, out: (g * conj_of(out * (1.0 - out)),), complex_math.sigmoid)
floor = _unary("floor", "The largest whole number not above.", _whole(s.floor), ref.whole(np.floor),
               zero_grad, dtype=operand_dtype, cheap=True,
              pair="floor is not supported for complex inputs")
ceil = _unary("ceil", "The smallest whole number not below.", _whole(s.ceil), ref.whole(np.ceil),
              zero_grad, dtype=operand_dtype, cheap=True,
              pair="ceil is not supported for complex inputs")
trunc = _unary("trunc", "The whole part, toward zero.", _whole(s.trunc), ref.whole(np.trunc),
               zero_grad, dtype=operand_dtype, cheap=True,
              pair="trunc is not supported for complex inputs")
round_ = _unary("round", "The nearest whole number, half to even.", _whole(s.rint),
                ref.whole(np.rint), zero_grad, dtype=operand_dtype, cheap=True,
                pair='"round_vml_cpu"')
isnan = _unary("isnan", "True where NaN.", scalar_isnan, np.isnan, STEP, dtype=bool_dtype,
               torch=torch_names("isnan", False), cheap=True, pair=pairs.isnan)
isinf = _unary("isinf", "True where plus or minus infinity.", scalar_isinf, np.isinf, STEP,
               dtype=bool_dtype, torch=torch_names("isinf", False), cheap=True, pair=pairs.isinf)
isfinite = _unary("isfinite", "True where neither NaN nor infinite.", scalar_isfinite, np.isfinite,
                  STEP, dtype=bool_dtype, torch=torch_names("isfinite", False), cheap=True,
                  pair=pairs.isfinite)
signbit = _unary("signbit", "True where the sign bit is set (-0.0 too).", scalar_signbit,
                 np.signbit, STEP, dtype=bool_dtype, torch=torch_names("signbit", False),
                 cheap=True)
logical_not = _unary("logical_not", "True where zero.", scalar_not, np.logical_not, STEP,
                     dtype=bool_dtype, cheap=True, pair=pairs.logic("logical_not"))
bitwise_not = _unary("bitwise_not", "Every bit turned over.", s.bit_not, np.invert, STEP,
                     dtype=integral_dtype, samples=samples.unary_int(-9, 9), cheap=True)
# fmt: on
