"""NAdam: Adam with Nesterov's momentum (Dozat 2016)."""

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


class NAdam(GroupedOptimizer):
    """Adam that looks one step of momentum ahead; the momentum grows from step to step.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = NAdam([weight], lr=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.item() < 1
        True
    """

    not_negative = ("eps", "weight_decay", "momentum_decay")

    def __init__(
        self,
        params: Params,
        lr: Scalar = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        product = torch.ones((), dtype=torch.float32, device=param.device)
        return {"mu_product": product, **zeros(param, "exp_avg", "exp_avg_sq")}

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        beta1, beta2 = group["betas"]

        def corrections(step: torch.Tensor) -> tuple[Any, ...]:
            now, following = (
                beta1 * (1 - 0.5 * 0.96 ** (at * group["momentum_decay"]))
                for at in (step, step + 1)
            )
            return now, following, root(bias_correction(beta2, step))

        self._advance(params, group)
        found = self._per_step(params, corrections)
        for param, (momentum, following, correction) in zip(params, found, strict=True):
            state, lr = self.state[param], group["lr"]
            product = state["mu_product"].mul_(momentum.to(torch.float32))
            product = kept(product, group).to(momentum.dtype)
            grad = decayed_grad(param, group)
            average = kept(decay_towards(state["exp_avg"], grad, beta1), group)
            square = decay_towards_square(state["exp_avg_sq"], grad, beta2)
            denominator = square.sqrt() / correction + group["eps"]
            param.sub_(grad / denominator * (lr * (1 - momentum) / (1 - product)))
            param.sub_(average / denominator * (lr * following / (1 - product * following)))
