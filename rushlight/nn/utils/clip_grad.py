"""Limit gradients by their total norm or by value."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

import rushlight as torch

Tensors = torch.Tensor | Iterable[torch.Tensor]


def as_list(tensors: Tensors) -> list[torch.Tensor]:
    """Return one tensor as a list of one."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def grads_of(parameters: Tensors) -> list[torch.Tensor]:
    """Return the gradients that exist."""
    return [p.grad for p in as_list(parameters) if p.grad is not None]


@torch.no_grad()
def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> torch.Tensor:
    """Return the norm of all tensors joined to one vector.

    Example:
        >>> get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
        tensor(5.)
    """
    tensors = as_list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return torch.tensor(0.0)
    device = tensors[0].device
    norms = [torch.linalg.vector_norm(tensor, norm_type).to(device) for tensor in tensors]
    total_norm = torch.linalg.vector_norm(torch.stack(norms), norm_type)
    if error_if_nonfinite and not math.isfinite(total_norm.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total_norm


@torch.no_grad()
def clip_grads_with_norm_(
    parameters: Tensors,
    max_norm: float,
    total_norm: torch.Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale the gradients so that a total norm above `max_norm` becomes `max_norm`."""
    # One multiplication by min(1, scale) always: a branch would have to read the norm.
    scale = torch.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    for grad in grads_of(parameters):
        grad.mul_(scale.to(grad.device))


@torch.no_grad()
def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> torch.Tensor:
    """Limit the total norm of the gradients in place; return the norm they had.

    `foreach` is accepted and ignored: the compiler joins the small operations anyway.

    Example:
        >>> weight = torch.zeros(1, requires_grad=True)
        >>> weight.grad = torch.tensor([2.0])
        >>> clip_grad_norm_([weight], max_norm=1.0)
        tensor(2.)
        >>> weight.grad
        tensor([1.0000])
    """
    parameters = as_list(parameters)
    total_norm = get_total_norm(grads_of(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total_norm, foreach)
    return total_norm


@torch.no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each gradient element to [-clip_value, clip_value] in place.

    Example:
        >>> weight = torch.zeros(1, requires_grad=True)
        >>> weight.grad = torch.tensor([2.0])
        >>> clip_grad_value_(weight, 0.5)
        >>> weight.grad
        tensor([0.5000])
    """
    clip_value = float(clip_value)
    for grad in grads_of(parameters):
        grad.clamp_(min=-clip_value, max=clip_value)


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> torch.Tensor:
    """The old name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
