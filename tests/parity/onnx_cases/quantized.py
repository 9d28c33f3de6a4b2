"""ONNX's quantized integers, by Rushlight's functions on whole numbers.

As elementwise.py: tensors and attributes in, tensors out. Scales and zero points are one for all,
one for each index of an axis, or one for each block of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import layers
from elementwise import DTYPES, NARROW, cast_like

import rushlight as torch

FLOAT8 = tuple(DTYPES[number] for number in NARROW)


def spread(value: Any, x: Any, axis: int, block: int = 0) -> Any:
    """A scale or a zero point against x."""
    if value.numel() == 1:
        return value.reshape(())
    if block:
        return value.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    return value.reshape([-1 if i == axis % x.dim() else 1 for i in range(x.dim())])


def shifted(x: Any, zero: Any, axis: int = 0) -> Any:
    """Whole numbers minus their zero point."""
    wide = x.to(torch.int32)
    return wide if zero is None else wide - spread(zero, x, axis).to(torch.int32)


def rounded(x: Any, zero: Any, kind: Any, axis: int = 1, block: int = 0) -> Any:
    """The nearest whole numbers plus the zero point, held in the range of a dtype."""
    whole = x.round()
    whole = whole if zero is None else whole + spread(zero, x, axis, block).to(x.dtype)
    info = torch.iinfo(kind)
    return whole.clamp(info.min, info.max).to(kind)


def quantize(
    x: Any, scale: Any, zero: Any = None, axis: int = 1, saturate: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Any:  # fmt: skip
    kind = DTYPES[output_dtype or 2] if zero is None else zero.dtype
    x = x / spread(scale, x, axis, block_size)
    if kind in FLOAT8:
        return cast_like(x, zero, saturate)
    return rounded(x, zero, kind, axis, block_size)


def dequantize(
    x: Any, scale: Any, zero: Any = None, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    wide = x.to(torch.float32)
    if zero is not None and x.dtype not in FLOAT8:
        wide = wide - spread(zero, x, axis, block_size).to(torch.float32)
    kind = DTYPES[output_dtype] if output_dtype else scale.dtype
    return (wide * spread(scale, x, axis, block_size).to(torch.float32)).to(kind)


def dynamic_quantize(x: Any) -> Any:
    high, low = x.max().clamp(min=0), x.min().clamp(max=0)
    scale = torch.where(high == low, 1.0, high - low) / 255
    zero = (0 - low / scale).clamp(0, 255).round()
    found = ((x / scale).round() + zero).clamp(0, 255).to(torch.uint8)
    return found, scale, zero.to(torch.uint8)


def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return torch.matmul(shifted(a, a_zero, -2), shifted(b, b_zero, -1))


def qlinear_matmul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any
) -> Any:
    made = matmul_integer(a, b, a_zero, b_zero).to(torch.float64)
    return rounded(made * (a_scale * b_scale / scale).to(torch.float64), zero, zero.dtype)


def conv_integer(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, **options: Any) -> Any:
    """Whole numbers this small are exact in float64."""
    x, w = (shifted(v, zero).to(torch.float64) for v, zero in ((x, x_zero), (w, w_zero)))
    return layers.conv(x, w, **options).to(torch.int32)


def qlinear_conv(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, scale: Any, zero: Any,
    bias: Any = None, **options: Any,
) -> Any:  # fmt: skip
    made = conv_integer(x, w, x_zero, w_zero, **options).to(torch.float64)
    made = made if bias is None else made + spread(bias, made, 1)
    return rounded(made * spread(x_scale * w_scale / scale, made, 1), zero, zero.dtype)


TABLE: dict[str, Callable] = {
    "QuantizeLinear": quantize, "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize, "MatMulInteger": matmul_integer,
    "QLinearMatMul": qlinear_matmul, "ConvInteger": conv_integer, "QLinearConv": qlinear_conv,
}  # fmt: skip
