"""Muon: momentum made orthogonal by Newton-Schulz steps (Jordan et al. 2024), for matrices."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.optim.grouped import (
    Group,
    GroupedOptimizer,
    State,
    decay_towards,
    descend,
    options,
    zeros,
)
from rushlight.optim.optimizer import Params

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
RULES = (None, "original", "match_rms_adamw")


class Muon(GroupedOptimizer):
    """Steps of equal size in all directions of a matrix; other parameters need another optimizer.

    Args:
        ns_coefficients: a, b, c of x -> a x + (b (x x^T) + c (x x^T)^2) x.
        adjust_lr_fn: how the rate follows the shape (A, B): 'original' (and None) multiplies it
            by sqrt(max(1, A / B)), 'match_rms_adamw' by 0.2 sqrt(max(A, B)).

    Example:
        >>> weight = torch.ones(2, 3, requires_grad=True)
        >>> optimizer = Muon([weight], lr=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.sum().item() < 6
        True
    """

    has_step_counter = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(params, options(locals()))
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.size()}"
                    )

    def _check_options(self, given: dict[str, Any]) -> None:
        if isinstance(given["lr"], torch.Tensor) and given["lr"].numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name in ("lr", "momentum", "weight_decay"):
            if not 0.0 <= given[name]:
                label = {"lr": "Learning rate", "weight_decay": "weight decay"}.get(name, name)
                raise ValueError(f"{label} should be >= 0 but is: {given[name]}")
        if given["adjust_lr_fn"] not in RULES:
            raise ValueError(
                f"Adjust learning rate function {given['adjust_lr_fn']} is not supported"
            )

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        return zeros(param, "momentum_buffer")

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        for param in params:
            if param.grad.dim() != 2:
                raise ValueError("Param gradient must be a 2D matrix")
            momentum = group["momentum"]
            average = decay_towards(self.state[param]["momentum_buffer"], param.grad, momentum)
            update = param.grad.lerp(average, momentum) if group["nesterov"] else average
            update = orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
            param.mul_(1 - group["lr"] * group["weight_decay"])
            rate = group["lr"] * shape_factor(group["adjust_lr_fn"], param.shape)
            descend(param, update.to(param.dtype), rate)


def shape_factor(rule: str | None, shape: tuple[int, ...]) -> float:
    """How much longer the step of a matrix of this shape is."""
    rows, columns = shape
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


def orthogonal(
    grad: torch.Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> torch.Tensor:
    """Return about U V^T of grad = U S V^T, in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values.")
    a, b, c = coefficients
    is_tall = grad.size(0) > grad.size(1)
    x = grad.bfloat16()
    x = x.T if is_tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = combined(x, a, 1.0, combined(gram, b, c, gram, gram), x)
    return x.T if is_tall else x


def combined(
    x: torch.Tensor, beta: float, alpha: float, left: torch.Tensor, right: torch.Tensor
) -> torch.Tensor:
    """beta x + alpha (left @ right), rounded to bfloat16 once."""
    return (x.float() * beta + (left.float() @ right.float()) * alpha).bfloat16()
