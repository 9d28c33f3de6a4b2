"""ONNX's operators of one element, reductions, and conversions, by Rushlight's functions.

In: the inputs of a node as tensors (None where one is left out) and its attributes. Out: a tensor
or several. TABLE holds them by ONNX's names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rushlight as torch

F = torch.nn.functional
# ONNX's number of a dtype.
DTYPES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 4: torch.uint16, 5: torch.int16,
    6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64,
    12: torch.uint32, 13: torch.uint64, 16: torch.bfloat16, 17: torch.float8_e4m3fn,
    18: torch.float8_e4m3fnuz, 19: torch.float8_e5m2, 20: torch.float8_e5m2fnuz,
}  # fmt: skip
NARROW = {17: 448.0, 18: 240.0, 19: 57344.0, 20: 57344.0}  # the largest number of a float8


def unary(function: Callable) -> Callable:
    return lambda x: function(x)


def many(function: Callable) -> Callable:
    return lambda *values: functools.reduce(function, values)


def div(a: Any, b: Any) -> Any:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def mod(a: Any, b: Any, fmod: int = 0) -> Any:
    return torch.fmod(a, b) if fmod else torch.remainder(a, b)


def pow_(a: Any, b: Any) -> Any:
    return torch.pow(a, b).to(a.dtype)


def bit_shift(a: Any, b: Any, direction: str) -> Any:
    wide = a.to(torch.int64), b.to(torch.int64)
    return (wide[0] << wide[1] if direction == "LEFT" else wide[0] >> wide[1]).to(a.dtype)


def cast(x: Any, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    if to not in DTYPES or round_mode != "up":
        raise NotImplementedError(f"dtype {to} of ONNX")
    if to in NARROW and saturate:
        wide = x.to(torch.float32)
        x = torch.where(wide.isnan(), wide, wide.clamp(-NARROW[to], NARROW[to]))
    if to == 17 and not saturate:  # PyTorch always saturates
        x = torch.where(x.to(torch.float32).abs() > 464, float("nan"), x)
    return x.to(DTYPES[to])


def cast_like(x: Any, like: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    number = next(key for key, dtype in DTYPES.items() if dtype is like.dtype)
    return cast(x, number, saturate, round_mode)


def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    x = x if low is None else torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


def is_inf(x: Any, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    found = torch.zeros(x.shape, dtype=torch.bool)
    found = found | torch.isneginf(x) if detect_negative else found
    return found | torch.isposinf(x) if detect_positive else found


def shrink(x: Any, lambd: float = 0.5, bias: float = 0.0) -> Any:
    zero = torch.zeros_like(x)
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, zero))


def selu(x: Any, alpha: float = 1.67326319, gamma: float = 1.05070102) -> Any:
    return gamma * torch.where(x > 0, x, alpha * x.expm1())


def prelu(x: Any, slope: Any) -> Any:
    return torch.where(x < 0, x * slope, x)


def hardmax(x: Any, axis: int = -1) -> Any:
    return torch.zeros_like(x).scatter(axis, x.argmax(axis, keepdim=True), 1.0)


def reduction(function: Callable) -> Callable:
    def run(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        dims = (
            []
            if axes is None
            else [int(a) for a in (axes if isinstance(axes, list) else axes.tolist())]
        )
        if not dims and noop_with_empty_axes:
            return function(x.unsqueeze(-1), [x.dim()], False)
        return function(x, dims or list(range(x.dim())), bool(keepdims))

    return run


def _sum(x: Any, dims: list[int], keep: bool) -> Any:
    return x.sum(dims, keepdim=keep).to(x.dtype) if dims else x


def _prod(x: Any, dims: list[int], keep: bool) -> Any:
    for dim in sorted((d % x.dim() for d in dims), reverse=True):
        x = x.prod(dim, keepdim=keep).to(x.dtype)
    return x


def _extreme(function: Callable) -> Callable:
    def run(x: Any, dims: list[int], keep: bool) -> Any:
        if x.numel():
            return function(x, dims, keepdim=keep)
        low, high = limits(x.dtype)
        fill = low if function is torch.amax else high
        return torch.full(x.sum(dims, keepdim=keep).shape, fill, dtype=x.dtype)

    return run


def limits(dtype: Any) -> tuple[Any, Any]:
    """What is below and above all others."""
    if dtype.is_floating_point:
        return float("-inf"), float("inf")
    if dtype is torch.bool:
        return False, True
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def position(function: Callable) -> Callable:
    def run(x: Any, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        if not select_last_index:
            return function(x, axis, keepdim=bool(keepdims))
        return x.shape[axis] - 1 - function(x.flip([axis]), axis, keepdim=bool(keepdims))

    return run


def cumulative(function: Callable, start: float) -> Callable:
    def run(x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
        dim = int(axis.item())
        x = x.flip([dim]) if reverse else x
        if exclusive:
            first = torch.full_like(x.narrow(dim, 0, 1), start)
            x = torch.cat([first, x.narrow(dim, 0, x.shape[dim] - 1)], dim)
        made = function(x, dim).to(x.dtype)
        return made.flip([dim]) if reverse else made

    return run


SQUARE = reduction(lambda x, dims, keep: _sum(x * x, dims, keep))
TABLE: dict[str, Callable] = {
    name: unary(getattr(torch, name.lower()))
    for name in """Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg
    Reciprocal Round Sigmoid Sign Sin Sinh Sqrt Tan Tanh IsNaN Relu Det""".split()
}
TABLE |= {
    "Not": unary(torch.logical_not), "BitwiseNot": unary(torch.bitwise_not),
    "Softplus": unary(F.softplus), "Softsign": unary(F.softsign), "Mish": unary(F.mish),
    "HardSwish": unary(F.hardswish), "Identity": lambda x: x,
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": div, "Pow": pow_, "Mod": mod,
    "And": torch.logical_and, "Or": torch.logical_or, "Xor": torch.logical_xor,
    "BitwiseAnd": torch.bitwise_and, "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor, "BitShift": bit_shift, "Equal": torch.eq,
    "Greater": torch.gt, "GreaterOrEqual": torch.ge, "Less": torch.lt, "LessOrEqual": torch.le,
    "Where": torch.where, "PRelu": prelu, "Max": many(torch.maximum), "Min": many(torch.minimum),
    "Sum": many(torch.add), "Mean": lambda *v: functools.reduce(torch.add, v) / len(v),
    "Cast": cast, "CastLike": cast_like, "Clip": clip, "IsInf": is_inf, "Shrink": shrink,
    "Elu": lambda x, alpha=1.0: F.elu(x, alpha), "Celu": lambda x, alpha=1.0: F.celu(x, alpha),
    "Selu": selu,
    "LeakyRelu": lambda x, alpha=0.01: F.leaky_relu(x, alpha),
    "ThresholdedRelu": lambda x, alpha=1.0: F.threshold(x, alpha, 0.0),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: (alpha * x + beta).clamp(0, 1),
    "Gelu": lambda x, approximate="none": F.gelu(x, approximate=approximate),
    "Swish": lambda x, alpha=1.0: x * (alpha * x).sigmoid(),
    "Softmax": lambda x, axis=-1: F.softmax(x, axis),
    "LogSoftmax": lambda x, axis=-1: F.log_softmax(x, axis), "Hardmax": hardmax,
    "ReduceSum": reduction(_sum), "ReduceProd": reduction(_prod),
    "ReduceMean": reduction(lambda x, dims, keep: x.mean(dims, keepdim=keep)),
    "ReduceMax": reduction(_extreme(torch.amax)), "ReduceMin": reduction(_extreme(torch.amin)),
    "ReduceL1": reduction(lambda x, dims, keep: _sum(x.abs(), dims, keep)),
    "ReduceL2": reduction(lambda x, dims, keep: _sum(x * x, dims, keep).sqrt()),
    "ReduceSumSquare": SQUARE,
    "ReduceLogSum": reduction(lambda x, dims, keep: _sum(x, dims, keep).log()),
    "ReduceLogSumExp": reduction(lambda x, dims, keep: torch.logsumexp(x, dims, keepdim=keep)),
    "ArgMax": position(torch.argmax), "ArgMin": position(torch.argmin),
    "CumSum": cumulative(torch.cumsum, 0.0), "CumProd": cumulative(torch.cumprod, 1.0),
}  # fmt: skip
