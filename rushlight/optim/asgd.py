"""ASGD: gradient descent with an average of its path (Polyak and Juditsky 1992)."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.optim.grouped import (
    Group,
    GroupedOptimizer,
    Scalar,
    State,
    decayed_grad,
    options,
    zeros,
)
from rushlight.optim.optimizer import Params


class ASGD(GroupedOptimizer):
    """Gradient descent with a falling rate; `state["ax"]` is the average from step t0 on.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = ASGD([weight], lr=0.1, lambd=0)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.9000])
    """

    not_negative = ("weight_decay",)

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        where = {"dtype": torch.float32, "device": param.device}
        return {
            "eta": torch.as_tensor(group["lr"], **where).detach().clone(),
            "mu": torch.ones((), **where),
            **zeros(param, "ax"),
        }

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        lr, lambd = group["lr"], group["lambd"]

        def following(step: torch.Tensor) -> tuple[Any, Any]:
            rate = lr / (1 + lambd * lr * step) ** group["alpha"]
            return rate, 1 / torch.clamp(step - group["t0"], min=1)

        self._advance(params, group)
        found = self._per_step(params, following)
        for param, (rate, share) in zip(params, found, strict=True):
            state = self.state[param]
            grad = decayed_grad(param, group)
            eta, mu = (state[name].to(share.dtype).clone() for name in ("eta", "mu"))
            average = state["ax"]
            param.mul_(1 - lambd * eta)
            param.sub_(grad * eta)
            average.add_((param - average) * mu)
            state["eta"].copy_(rate)
            state["mu"].copy_(share)
