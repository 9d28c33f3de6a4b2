"""Adamax: Adam with the largest gradient in place of the mean square (Kingma and Ba 2014)."""

from __future__ import annotations

import rushlight as torch
from rushlight.optim.grouped import (
    Group,
    GroupedOptimizer,
    Scalar,
    State,
    bias_correction,
    decay_towards,
    decayed_grad,
    kept,
    options,
    zeros,
)
from rushlight.optim.optimizer import Params


class Adamax(GroupedOptimizer):
    """Steps of the mean gradient divided by the largest of the decayed absolute gradients.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = Adamax([weight], lr=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.9000])
    """

    def __init__(
        self,
        params: Params,
        lr: Scalar = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        return zeros(param, "exp_avg", "exp_inf")

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        beta1, beta2 = group["betas"]
        self._advance(params, group)
        sizes = self._per_step(params, lambda step: group["lr"] / bias_correction(beta1, step))
        for param, step_size in zip(params, sizes, strict=True):
            state = self.state[param]
            grad = decayed_grad(param, group)
            average = kept(decay_towards(state["exp_avg"], grad, beta1), group)
            largest = torch.maximum(
                kept(state["exp_inf"], group) * beta2, grad.abs() + group["eps"]
            )
            state["exp_inf"].copy_(largest)
            param.sub_(average / largest * step_size)
