"""What PyTorch's optimizer modules share, as optimizers of other packages import it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.optim.optimizer import _Required as _RequiredParameter
from rushlight.optim.optimizer import required

__all__ = ["_RequiredParameter", "required"]


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` that records gradients only if the option `differentiable` says so."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.set_grad_enabled(bool(self.defaults.get("differentiable"))):
            return func(self, *args, **kwargs)

    return step


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Any], Any]:
    """A decorator that changes nothing: whatever runs is recorded."""
    return lambda function: function


def _default_to_fused_or_foreach(
    params: Any, differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach): neither is of use, since the updates of a step are joined anyway."""
    return False, False


def _get_value(x: Any) -> Any:
    """The number in a tensor of one element; anything else as it is."""
    return x.item() if isinstance(x, torch.Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _dispatch_sqrt(x: Any) -> Any:
    """The square root of a number or a tensor."""
    return x.sqrt() if isinstance(x, torch.Tensor) else math.sqrt(x)


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without its dimensions; anything else as it is."""
    return x.squeeze() if isinstance(x, torch.Tensor) and x.dim() != 0 else x


def _get_scalar_dtype(is_fused: bool | None = None) -> torch.dtype:
    """The dtype of a step counter."""
    is_double = torch.get_default_dtype() == torch.float64 and not is_fused
    return torch.float64 if is_double else torch.float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Kinds of devices on which a step counter may be a tensor of the device."""
    return ["cpu"]


_get_foreach_kernels_supported_devices = _get_capturable_supported_devices
_get_fused_kernels_supported_devices = _get_capturable_supported_devices


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Put views with real and imaginary parts in the places of complex tensors, in each list."""
    for i, param in enumerate(params):
        if torch.is_complex(param):
            for tensors in (params, *state_and_grads):
                tensors[i] = torch.view_as_real(tensors[i])
