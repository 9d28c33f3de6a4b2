"""RMSprop (Hinton's lecture 6; centered: Graves 2013)."""

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
    options,
    zeros,
)
from rushlight.optim.optimizer import Params


class RMSprop(GroupedOptimizer):
    """Steps of the gradient divided by the root of a running mean of its square.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = RMSprop([weight], lr=0.01)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.9000])
    """

    not_negative = ("eps", "momentum", "weight_decay", "alpha")

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        names = ["square_avg"]
        names += ["momentum_buffer"] if group["momentum"] > 0 else []
        names += ["grad_avg"] if group["centered"] else []
        return zeros(param, *names)

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        self._advance(params, group)
        for param in params:
            state = self.state[param]
            grad = decayed_grad(param, group)
            alpha = group["alpha"]
            square = decay_towards_square(state["square_avg"], grad, alpha)
            if group["centered"]:
                mean = state["grad_avg"].lerp_(grad, 1 - alpha)
                square = square.addcmul(mean, mean, value=-1)
            root = square.sqrt() + group["eps"]
            if group["momentum"] > 0:
                buffer = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root)
                descend(param, buffer, group["lr"])
            else:
                descend(param, grad / root, group["lr"])
