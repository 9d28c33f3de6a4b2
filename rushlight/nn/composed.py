"""Functions of `nn.functional` that are a few public tensor operations each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.nn.sizes import sizes_of
from rushlight.tensors import functional as F

Tensor = torch.Tensor


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Multiply negative values by a random slope, in evaluation by the mean slope."""
    slope = torch.empty_like(input).uniform_(lower, upper) if training else (lower + upper) / 2
    out = torch.where(input >= 0, input, input * slope)
    return input.copy_(out) if inplace else out


def relu_(input: Tensor) -> Tensor:
    """`relu` in place."""
    return F.relu(input, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place."""
    return F.elu(input, alpha, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return F.celu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return F.selu(input, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    return F.leaky_relu(input, negative_slope, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place."""
    return F.hardtanh(input, min_val, max_val, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place."""
    return F.threshold(input, threshold, value, inplace=True)


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, inplace=True)


def _lp_pool(
    average: Callable[..., Tensor],
    input: Tensor,
    norm_type: float,
    kernel: tuple[int, ...],
    stride: Any,
    ceil_mode: bool,
) -> Tensor:
    mean = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return (mean * math.prod(kernel)).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Return the p-norm of each window of (N, C, L) or (C, L)."""
    kernel = sizes_of(kernel_size, 1)
    return _lp_pool(F.avg_pool1d, input, norm_type, kernel, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Return the p-norm of each window of (N, C, H, W) or (C, H, W)."""
    kernel = sizes_of(kernel_size, 2)
    return _lp_pool(F.avg_pool2d, input, norm_type, kernel, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Return the p-norm of each window of (N, C, D, H, W) or (C, D, H, W)."""
    kernel = sizes_of(kernel_size, 3)
    return _lp_pool(F.avg_pool3d, input, norm_type, kernel, stride, ceil_mode)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the values of `adaptive_max_pool1d` and where they were."""
    return F.adaptive_max_pool1d(input, output_size, return_indices=True)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the values of `adaptive_max_pool2d` and where they were."""
    return F.adaptive_max_pool2d(input, output_size, return_indices=True)


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the values of `adaptive_max_pool3d` and where they were."""
    return F.adaptive_max_pool3d(input, output_size, return_indices=True)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolve (time, batch, channels) with (window, channels, outputs)."""
    out = F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return out.permute(2, 0, 1)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Another name of `channel_shuffle`."""
    return F.channel_shuffle(input, groups)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return how far the positive is from being nearer than the negative by the margin."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = F.pairwise_distance if distance_function is None else distance_function
    dims = [tensor.dim() for tensor in (anchor, positive, negative)]
    if len({*dims}) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {dims[0]}D, positive {dims[1]}D, and negative "
            f"{dims[2]}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    loss = torch.clamp_min(margin + near - far, 0)
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return loss.mean() if reduction == "mean" else loss.sum()
