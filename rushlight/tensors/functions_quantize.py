"""Rounding to the numbers of a quantized dtype while staying in floating point.

In: a tensor, steps and zero points. Out: the nearest of `quant_min .. quant_max` steps; the
gradient is that of the identity inside this range and 0 outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import ops
from rushlight.tensors.apply import apply
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_math import clamp
from rushlight.tensors.functions_view import reshape
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale.

    scale, zero_point: numbers, or tensors of one element. Raises RuntimeError for an empty range.

    >>> import rushlight as torch
    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.26, 9.0]), 0.1, 0, 0, 15)
    tensor([0.3000, 1.5000])
    """
    _check_range(quant_min, quant_max)
    if not isinstance(zero_point, Tensor) and not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return _rounded(input, scale, zero_point, quant_min, quant_max)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """The same with a step and a zero point for each index of dimension `axis`."""
    _check_range(quant_min, quant_max)
    if scale.dim() != 1 or zero_point.dim() != 1:
        raise RuntimeError("scale and zero_point need to be a 1-D tensor")
    if scale._shape != zero_point._shape:
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if not -input.dim() <= axis < input.dim() or input._shape[axis] != scale._shape[0]:
        raise RuntimeError(
            "dimensions of scale and zero-point are not consistent with input tensor"
        )
    shape = [1] * input.dim()
    shape[axis] = -1
    return _rounded(input, reshape(scale, shape), reshape(zero_point, shape), quant_min, quant_max)


def _check_range(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")


def _rounded(input: Tensor, scale: Any, zero: Any, low: int, high: int) -> Tensor:
    fixed = input.detach()
    step = scale.detach() if isinstance(scale, Tensor) else tensor_of(scale, input._dtype)
    place = (fixed * (1.0 / step)).round() + zero
    value = ((clamp(place, low, high) - zero) * step).to(input._dtype)
    if not input.requires_grad:
        return value
    inside = apply(ops.logical_and, (place >= low, place <= high))
    kept = apply(ops.where, (inside, input, 0.0))
    return value + (kept - kept.detach())  # adds 0; the gradient goes through `kept`


FUNCTIONS: dict[str, Callable] = by_name(
    fake_quantize_per_tensor_affine, fake_quantize_per_channel_affine
)
METHODS: dict[str, Callable] = {}
