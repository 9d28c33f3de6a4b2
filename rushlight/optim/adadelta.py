"""Adadelta (Zeiler 2012)."""

from __future__ import annotations

import rushlight as torch
from rushlight.optim.grouped import (
    Group,
    GroupedOptimizer,
    Scalar,
    State,
    decay_towards_square,
    decayed_grad,
    descend,
    kept,
    options,
    zeros,
)
from rushlight.optim.optimizer import Params


class Adadelta(GroupedOptimizer):
    """Steps as long as the mean of the last ones, divided by the mean of the last gradients.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = Adadelta([weight])
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.item() < 1
        True
    """

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        given = options(locals())
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, given)

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        return zeros(param, "square_avg", "acc_delta")

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        self._advance(params, group)
        rho, eps = group["rho"], group["eps"]
        for param in params:
            state = self.state[param]
            grad = decayed_grad(param, group)
            square = decay_towards_square(state["square_avg"], grad, rho)
            lengths = kept(state["acc_delta"], group)
            delta = (lengths + eps).sqrt() / (square + eps).sqrt() * grad
            decay_towards_square(state["acc_delta"], delta, rho)
            descend(param, delta, group["lr"])
