"""RAdam: Adam whose step grows with what is known of the variance (Liu et al. 2020)."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.optim.grouped import (
    Group,
    GroupedOptimizer,
    Scalar,
    State,
    bias_correction,
    decay_towards,
    decay_towards_square,
    decayed_grad,
    kept,
    options,
    root,
    zeros,
)
from rushlight.optim.optimizer import Params


class RAdam(GroupedOptimizer):
    """Adam without a second moment in the first steps, and a rectified one later.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = RAdam([weight], lr=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.9000])
    """

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        return zeros(param, "exp_avg", "exp_avg_sq")

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        beta1, beta2 = group["betas"]
        longest = 2 / (1 - beta2) - 1

        def corrections(step: torch.Tensor) -> tuple[Any, ...]:
            second = bias_correction(beta2, step)
            length = longest - 2 * step * (1 - second) / second
            rect = (length - 4) * (length - 2) * longest
            rect = rect / ((longest - 4) * (longest - 2) * length)
            # Below 5 the variance is not known and `rect` is not a number of use.
            factor = torch.clamp(rect, min=0).sqrt() * root(second)
            return group["lr"] / bias_correction(beta1, step), length > 5.0, factor

        self._advance(params, group)
        found = self._per_step(params, corrections)
        for param, (step_size, is_known, factor) in zip(params, found, strict=True):
            state = self.state[param]
            grad = decayed_grad(param, group)
            average = kept(decay_towards(state["exp_avg"], grad, beta1), group)
            square = decay_towards_square(state["exp_avg_sq"], grad, beta2)
            adaptive = factor / (square.sqrt() + group["eps"])
            param.sub_(average * step_size * torch.where(is_known, adaptive, 1.0))
