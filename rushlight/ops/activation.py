"""Activations: composites of one operand, each with a gradient that reads as little as it can."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

import numpy as np

from rushlight.ir.opdef import FROM_DECOMPOSITION, Arg, Attr, Call, Dim, OpDef, Value
from rushlight.ir.symint import floordiv
from rushlight.ops import reference as ref
from rushlight.ops import samples
from rushlight.ops.binary import gt, le, logical_and, lt, maximum, minimum
from rushlight.ops.build import conj_of, like, slice_dim, to_dtype
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
from rushlight.ops.rules import common_dtype, inexact_dtype
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.select import where
from rushlight.ops.unary import abs_, erf, exp, expm1, log1p, sigmoid, tanh

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def names(name: str) -> tuple[str, ...]:
    return (f"nn.functional.{name}",)


def _activation(
    name: str,
    doc: str,
    decompose: Callable,
    reference: Callable,
    grad: Any = FROM_DECOMPOSITION,
    values: tuple = (),
    **fields: Any,
) -> OpDef:
    fields.setdefault("torch", names(name))
    fields.setdefault("samples", with_values(*values))
    return composite(name, doc, (Arg("x"), *values), decompose, reference, grad, **fields)


def with_values(*values: Any) -> Callable[[Rng], list[Sample]]:
    """An operand and the default of each Value."""

    def build(rng: Rng) -> list[Sample]:
        extra = tuple(value.default for value in values)
        return [
            Sample((array(rng, *shape, low=-4, high=7), *extra)) for shape in ((3, 5), (), (0,))
        ]

    return build


def inside(x: Any, low: Any, high: Any) -> Any:
    """True strictly between."""
    return logical_and(gt(x, low), lt(x, high))


relu = _activation(
    "relu",
    "max(x, 0); NaN stays.",
    lambda x: maximum(x, 0),
    lambda x: np.maximum(x, 0),
    lambda g, out, meta: (where(le(out, 0.0), 0.0, g),),
    dtype=common_dtype,
    torch=("torch.relu", "Tensor.relu", "Tensor.relu_", "nn.functional.relu"),
    compute_f32=False,
    cheap=True,
    pair="clamp is not supported for complex types",
)

GELU = ("none", "tanh")


def check_approximate(call: Call) -> None:
    if call["approximate"] not in GELU:
        raise RuntimeError(
            f"approximate argument must be either none or tanh, got {call['approximate']!r}"
        )


def gelu_decompose(x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        return x * 0.5 * (erf(x * (1 / sqrt(2))) + 1.0)
    return x * 0.5 * (tanh(_gelu_inner(x)) + 1.0)


def _gelu_inner(x: Any) -> Any:
    return (x + x * x * x * 0.044715) * sqrt(2 / pi)


def gelu_reference(x: np.ndarray, approximate: str) -> np.ndarray:
    if approximate == "none":
        return 0.5 * x * (1 + ref.erf(x / sqrt(2)))
    return 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))


def gelu_grad(g: Any, x: Any, approximate: str, meta: Meta) -> tuple:
    if approximate == "none":
        share = (erf(x * (1 / sqrt(2))) + 1.0) * 0.5
        return (g * (share + x * exp(x * x * -0.5) * (1 / sqrt(2 * pi))),)
    bent = tanh(_gelu_inner(x))
    slope = (x * x * (3 * 0.044715) + 1.0) * sqrt(2 / pi)
    return (g * ((bent + 1.0) * 0.5 + x * 0.5 * (1.0 - bent * bent) * slope),)


gelu = composite(
    "gelu",
    "x times the normal distribution function at x.",
    (Arg("x"), Attr("approximate", "none")),
    gelu_decompose,
    gelu_reference,
    gelu_grad,
    torch=names("gelu"),
    check=check_approximate,
    samples=lambda rng: [Sample((array(rng, 3, 5),), {"approximate": a}) for a in GELU],
    error_samples=(ErrorSample((np.ones(2),), {"approximate": "x"}, RuntimeError, "either none"),),
    pair='"GeluKernelImpl"',
)


def silu_grad(g: Any, x: Any, meta: Meta) -> tuple:
    x = conj_of(x)
    s = sigmoid(x)
    return (g * (s * (x * (1.0 - s) + 1.0)),)


silu = _activation("silu", "x * sigmoid(x).", lambda x: x * sigmoid(x),
                   lambda x: x * ref.sigmoid(x), silu_grad, dtype=inexact_dtype)  # fmt: skip


def elu_decompose(x: Any, alpha: Any) -> Any:
    return where(gt(x, 0.0), x, like(alpha, x.dtype) * expm1(x))


def elu_grad(g: Any, x: Any, alpha: Any, meta: Meta) -> tuple:
    return (where(le(x, 0.0), g * like(alpha, x.dtype) * exp(x), g),)


elu = _activation(
    "elu",
    "x above 0, alpha * (exp(x) - 1) below.",
    elu_decompose,
    lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    elu_grad,
    (Value("alpha", 1.0),),
)
celu = _activation(
    "celu",
    "x above 0, alpha * (exp(x / alpha) - 1) below.",
    lambda x, alpha: where(gt(x, 0.0), x, like(alpha, x.dtype) * expm1(x / like(alpha, x.dtype))),
    lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
    lambda g, x, alpha, meta: (where(le(x, 0.0), g * exp(x / like(alpha, x.dtype)), g),),
    (Value("alpha", 1.0),),
)
selu = _activation(
    "selu",
    "elu scaled so that mean 0 and variance 1 are kept.",
    lambda x: where(gt(x, 0.0), x, expm1(x) * SELU_ALPHA) * SELU_SCALE,
    lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0))),
    lambda g, x, meta: (where(le(x, 0.0), g * exp(x) * SELU_ALPHA, g) * SELU_SCALE,),
)
leaky_relu = _activation(
    "leaky_relu",
    "x above 0, negative_slope * x below.",
    lambda x, negative_slope: where(gt(x, 0.0), x, x * like(negative_slope, x.dtype)),
    lambda x, negative_slope: np.where(x > 0, x, negative_slope * x),
    lambda g, x, negative_slope, meta: (where(gt(x, 0.0), g, g * like(negative_slope, x.dtype)),),
    (Value("negative_slope", 0.01),),
)


def softplus_decompose(x: Any, beta: Any, threshold: Any) -> Any:
    beta = like(beta, x.dtype)
    scaled = x * beta
    above = gt(scaled, like(threshold, x.dtype))
    return where(above, x, log1p(exp(where(above, 0.0, scaled))) / beta)


def softplus_grad(g: Any, x: Any, beta: Any, threshold: Any, meta: Meta) -> tuple:
    scaled = x * like(beta, x.dtype)
    return (where(gt(scaled, like(threshold, x.dtype)), g, g * sigmoid(scaled)),)


softplus = _activation(
    "softplus",
    "log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold.",
    softplus_decompose,
    lambda x, beta, threshold: np.where(
        x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta
    ),
    softplus_grad,
    (Value("beta", 1.0), Value("threshold", 20.0)),
)


def _stable_softplus(x: Any) -> Any:
    return maximum(x, 0.0) + log1p(exp(-abs_(x)))


def mish_grad(g: Any, x: Any, meta: Meta) -> tuple:
    t = tanh(_stable_softplus(x))
    return (g * (t + x * sigmoid(x) * (1.0 - t * t)),)


mish = _activation("mish", "x * tanh(softplus(x)).", lambda x: x * tanh(_stable_softplus(x)),
                   lambda x: x * np.tanh(np.logaddexp(x, 0)), mish_grad)  # fmt: skip
log_sigmoid = _activation(
    "log_sigmoid",
    "log(sigmoid(x)).",
    lambda x: minimum(x, 0.0) - log1p(exp(-abs_(x))),
    lambda x: -np.logaddexp(-x, 0),
    lambda g, x, meta: (g * sigmoid(-x),),
    torch=names("logsigmoid"),
)
hardtanh = _activation(
    "hardtanh",
    "x clamped to [min_val, max_val]; no gradient at the ends.",
    lambda x, min_val, max_val: minimum(maximum(x, like(min_val, x.dtype)), like(max_val, x.dtype)),
    lambda x, min_val, max_val: np.clip(x, min_val, max_val),
    lambda g, x, min_val, max_val, meta: (
        where(inside(x, like(min_val, x.dtype), like(max_val, x.dtype)), g, 0.0),
    ),
    (Value("min_val", -1.0), Value("max_val", 1.0)),
    dtype=common_dtype,
    pair="clamp is not supported for complex types",
)
relu6 = _activation(
    "relu6",
    "x clamped to [0, 6].",
    lambda x: minimum(maximum(x, 0.0), 6.0),
    lambda x: np.clip(x, 0, 6),
    lambda g, x, meta: (where(inside(x, 0.0, 6.0), g, 0.0),),
    dtype=common_dtype,
    pair="clamp is not supported for complex types",
)
hardsigmoid = _activation(
    "hardsigmoid",
    "relu6(x + 3) / 6.",
    lambda x: minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0,
    lambda x: np.clip(x + 3, 0, 6) / 6,
    lambda g, x, meta: (where(inside(x, -3.0, 3.0), g * (1 / 6), 0.0),),
)


def hardswish_grad(g: Any, x: Any, meta: Meta) -> tuple:
    """PyTorch gives 0 at -3 and the whole of g at 3."""
    middle = g * (x / 3.0 + 0.5)
    return (where(le(x, -3.0), 0.0, where(lt(x, 3.0), middle, g)),)


hardswish = _activation(
    "hardswish",
    "x * relu6(x + 3) / 6.",
    lambda x: x * minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0,
    lambda x: x * np.clip(x + 3, 0, 6) / 6,
    hardswish_grad,
)
softsign = _activation("softsign", "x / (1 + |x|).", lambda x: x / to_dtype(abs_(x) + 1.0, x.dtype),
                       lambda x: x / (1 + np.abs(x)), dtype=inexact_dtype,
                       promote="float")  # fmt: skip
tanhshrink = _activation("tanhshrink", "x - tanh(x).", lambda x: x - tanh(x),
                         lambda x: x - np.tanh(x), dtype=inexact_dtype,
                         promote="float")  # fmt: skip
hardshrink = _activation(
    "hardshrink",
    "0 within [-lambd, lambd], else x.",
    lambda x, lambd: where(le(abs_(x), like(lambd, x.dtype)), 0.0, x),
    lambda x, lambd: np.where(np.abs(x) <= lambd, 0, x),
    lambda g, x, lambd, meta: (where(gt(abs_(x), like(lambd, x.dtype)), g, 0.0),),
    (Value("lambd", 0.5),),
)


def softshrink_decompose(x: Any, lambd: Any) -> Any:
    edge = like(lambd, x.dtype)
    return where(gt(x, edge), x - edge, where(lt(x, -edge), x + edge, x * 0.0))


softshrink = _activation(
    "softshrink",
    "x moved by lambd toward 0, 0 within.",
    softshrink_decompose,
    lambda x, lambd: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0)),
    lambda g, x, lambd, meta: (where(gt(abs_(x), like(lambd, x.dtype)), g, 0.0),),
    (Value("lambd", 0.5),),
)
threshold = _activation(
    "threshold",
    "x above the threshold, else value.",
    lambda x, threshold, value: where(gt(x, like(threshold, x.dtype)), x, like(value, x.dtype)),
    lambda x, threshold, value: np.where(x > threshold, x, value),
    lambda g, x, threshold, meta: (where(gt(x, like(threshold, x.dtype)), g, 0.0),),
    (Value("threshold"), Value("value")),
    dtype=common_dtype,
    samples=lambda rng: [Sample((array(rng, 3, 4), 0.1, 7.0))],
)
square = composite(
    "square",
    "x * x.",
    (Arg("x"),),
    lambda x: x * x,
    np.square,
    lambda g, x, meta: (g * conj_of(x) * 2.0,),
    dtype=common_dtype,
    compute_f32=False,
    torch=("torch.square", "Tensor.square", "Tensor.square_"),
    samples=samples.unary(-3, 3),
    cheap=True,
)


def glu_decompose(input: Any, dim: int = -1) -> Any:  # noqa: A002
    half = floordiv(input.shape[dim], 2)
    gate = slice_dim(input, input.shape, dim, half, half)
    return slice_dim(input, input.shape, dim, 0, half) * sigmoid(gate)


def glu_shape(call: Call) -> tuple:
    shape, dim = call["input"].shape, call["dim"]
    if not shape:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if isinstance(shape[dim], int) and shape[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size {shape[dim]}"
        )
    return (*shape[:dim], floordiv(shape[dim], 2), *shape[dim + 1 :])


def glu_reference(x: np.ndarray, dim: int) -> np.ndarray:
    a, b = np.split(x, 2, dim)
    return a * ref.sigmoid(b)


glu = composite(
    "glu",
    "The first half along dim times the sigmoid of the second.",
    (Arg("input"), Dim("dim", -1)),
    glu_decompose,
    glu_reference,
    shape=glu_shape,
    torch=names("glu"),
    samples=lambda rng: [Sample((array(rng, 3, 4),), {"dim": d}) for d in (-1,)],
    error_samples=(ErrorSample((np.ones(3),), {}, RuntimeError, "must be even"),),
)
