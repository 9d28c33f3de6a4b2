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
from rushlight.ops import reference as ref
from rushlight.ops import samples
from rushlight.ops.late import late
from rushlight.ops.meta import Meta
from rushlight.ops.rules import (
    bool_dtype,
    const,
    elementwise_shape,
    float_dtype,
    integral_dtype,
    operand_dtype,
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

# fmt: off

neg = _unary("neg", "Minus each element.", s.neg, np.negative, lambda g: (-g,),
             dtype=operand_dtype, cheap=True)
abs_ = _unary("abs", "The size of each element without its sign.", scalar_abs, np.abs,
              lambda g, x: (g * sign(x),), dtype=operand_dtype, cheap=True)
sign = _unary("sign", "-1, 0 or 1; 0 for NaN.", scalar_sign, ref.sign,
              zero_grad, dtype=operand_dtype, cheap=True)
exp = _unary("exp", "Raise e to each element.", "exp", np.exp, lambda g, out: (g * out,))
exp2 = _unary("exp2", "Raise 2 to each element.", "exp2", np.exp2,
              lambda g, out: (g * out * 0.6931471805599453,))
expm1 = _unary("expm1", "exp(x) - 1, exact near 0.", "expm1", np.expm1,
               lambda g, out: (g * (out + 1.0),))
log = _unary("log", "The natural logarithm.", "log", np.log, lambda g, x: (g / x,),
             samples=positive_range)
log2 = _unary("log2", "The logarithm to base 2.", "log2", np.log2,
              lambda g, x: (g / (x * 0.6931471805599453),), samples=positive_range)
log10 = _unary("log10", "The logarithm to base 10.", "log10", np.log10,
               lambda g, x: (g / (x * 2.302585092994046),), samples=positive_range)
log1p = _unary("log1p", "log(1 + x), exact near 0.", "log1p", np.log1p,
               lambda g, x: (g / (x + 1.0),), samples=unit_range)
sqrt = _unary("sqrt", "The square root.", s.sqrt, np.sqrt, lambda g, out: (g / (out * 2.0),),
              samples=positive_range)
rsqrt = _unary("rsqrt", "One over the square root.", "rsqrt", lambda x: 1 / np.sqrt(x),
               lambda g, out: (g * -0.5 * (out * out * out),), samples=positive_range)
reciprocal = _unary("reciprocal", "One over each element.", lambda x: s.div(1.0, x),
                    lambda x: 1 / x, lambda g, out: (-g * (out * out),), samples=positive_range)
sin = _unary("sin", "The sine (radians).", "sin", np.sin, lambda g, x: (g * cos(x),))
cos = _unary("cos", "The cosine (radians).", "cos", np.cos, lambda g, x: (-g * sin(x),))
tan = _unary("tan", "The tangent (radians).", "tan", np.tan,
             lambda g, out: (g * (out * out + 1.0),), samples=samples.unary(-1.3, 1.3))
asin = _unary("asin", "The inverse sine.", "asin", np.arcsin,
              lambda g, x: (g * rsqrt(1.0 - x * x),), samples=unit_range)
acos = _unary("acos", "The inverse cosine.", "acos", np.arccos,
              lambda g, x: (-g * rsqrt(1.0 - x * x),), samples=unit_range)
atan = _unary("atan", "The inverse tangent.", "atan", np.arctan, lambda g, x: (g / (x * x + 1.0),))
sinh = _unary("sinh", "The hyperbolic sine.", "sinh", np.sinh, lambda g, x: (g * cosh(x),))
cosh = _unary("cosh", "The hyperbolic cosine.", "cosh", np.cosh, lambda g, x: (g * sinh(x),))
tanh = _unary("tanh", "The hyperbolic tangent.", "tanh", np.tanh,
              lambda g, out: (g * (1.0 - out * out),))
asinh = _unary("asinh", "The inverse hyperbolic sine.", "asinh", np.arcsinh,
               lambda g, x: (g * rsqrt(x * x + 1.0),))
acosh = _unary("acosh", "The inverse hyperbolic cosine.", "acosh", np.arccosh,
               lambda g, x: (g * rsqrt(x * x - 1.0),), samples=samples.unary(1.1, 4))
atanh = _unary("atanh", "The inverse hyperbolic tangent.", "atanh", np.arctanh,
               lambda g, x: (g / (1.0 - x * x),), samples=unit_range)
erf = _unary("erf", "The error function.", "erf", ref.erf,
             lambda g, x: (g * (2.0 / pi**0.5) * exp(-(x * x)),))
erfc = _unary("erfc", "One minus the error function.", "erfc", ref.erfc,
              lambda g, x: (g * (-2.0 / pi**0.5) * exp(-(x * x)),))
erfinv = _unary("erfinv", "The inverse of the error function.", "erfinv", ref.erfinv,
                lambda g, out: (g * (0.5 * pi**0.5) * exp(out * out),), samples=unit_range)
digamma = _unary("digamma", "The derivative of lgamma.", "digamma", ref.digamma,
                 lambda g, x: (g * late.trigamma(x),), samples=positive_range)
lgamma = _unary("lgamma", "The logarithm of the absolute gamma function.", "lgamma", ref.lgamma,
                lambda g, x: (g * digamma(x),), samples=positive_range)
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)).", "sigmoid", ref.sigmoid,
                 lambda g, out: (g * (out * (1.0 - out)),))
floor = _unary("floor", "The largest whole number not above.", _whole(s.floor), ref.whole(np.floor),
               zero_grad, dtype=operand_dtype, cheap=True)
ceil = _unary("ceil", "The smallest whole number not below.", _whole(s.ceil), ref.whole(np.ceil),
              zero_grad, dtype=operand_dtype, cheap=True)
trunc = _unary("trunc", "The whole part, toward zero.", _whole(s.trunc), ref.whole(np.trunc),
               zero_grad, dtype=operand_dtype, cheap=True)
round_ = _unary("round", "The nearest whole number, half to even.", _whole(s.rint),
                ref.whole(np.rint), zero_grad, dtype=operand_dtype, cheap=True)
isnan = _unary("isnan", "True where NaN.", scalar_isnan, np.isnan, STEP, dtype=bool_dtype,
               torch=torch_names("isnan", False), cheap=True)
isinf = _unary("isinf", "True where plus or minus infinity.", scalar_isinf, np.isinf, STEP,
               dtype=bool_dtype, torch=torch_names("isinf", False), cheap=True)
isfinite = _unary("isfinite", "True where neither NaN nor infinite.", scalar_isfinite, np.isfinite,
                  STEP, dtype=bool_dtype, torch=torch_names("isfinite", False), cheap=True)
signbit = _unary("signbit", "True where the sign bit is set (-0.0 too).", scalar_signbit,
                 np.signbit, STEP, dtype=bool_dtype, torch=torch_names("signbit", False),
                 cheap=True)
logical_not = _unary("logical_not", "True where zero.", scalar_not, np.logical_not, STEP,
                     dtype=bool_dtype, cheap=True)
bitwise_not = _unary("bitwise_not", "Every bit turned over.", s.bit_not, np.invert, STEP,
                     dtype=integral_dtype, samples=samples.unary_int(-9, 9), cheap=True)
# fmt: on
