"""The gradients of convolutions, as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F

Tensor = torch.Tensor


def _gradient(
    convolve: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor,
    grad_output: Tensor,
    settings: tuple[Any, ...],
    of_weight: bool,
) -> Tensor:
    wanted = weight if of_weight else input
    with torch.enable_grad():
        wanted.requires_grad_(True)
        out = convolve(input, weight, None, *settings)
    return torch.autograd.grad(out, wanted, grad_output)[0]


def _input_gradient(spatial: int) -> Callable[..., Tensor]:
    convolve = getattr(F, f"conv{spatial}d")

    def function(
        input_size: Any,
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        start = grad_output.new_zeros(tuple(input_size))
        settings = (stride, padding, dilation, groups)
        return _gradient(convolve, start, weight.detach(), grad_output, settings, False)

    function.__name__ = f"conv{spatial}d_input"
    function.__doc__ = f"The gradient of conv{spatial}d for its input."
    return function


def _weight_gradient(spatial: int) -> Callable[..., Tensor]:
    convolve = getattr(F, f"conv{spatial}d")

    def function(
        input: Tensor,
        weight_size: Any,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        start = grad_output.new_zeros(tuple(weight_size))
        settings = (stride, padding, dilation, groups)
        return _gradient(convolve, input.detach(), start, grad_output, settings, True)

    function.__name__ = f"conv{spatial}d_weight"
    function.__doc__ = f"The gradient of conv{spatial}d for its weight."
    return function


conv1d_input, conv2d_input, conv3d_input = map(_input_gradient, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_weight_gradient, (1, 2, 3))
