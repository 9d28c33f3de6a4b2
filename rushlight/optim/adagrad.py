"""Adagrad (Duchi, Hazan and Singer 2011)."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.optim.grouped import (
    Group,
    GroupedOptimizer,
    Scalar,
    State,
    decayed_grad,
    descend,
    options,
    signed_grad,
)
from rushlight.optim.optimizer import Params


class Adagrad(GroupedOptimizer):
    """Steps of the gradient divided by the root of the sum of all its squares so far.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = Adagrad([weight], lr=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.9000])
    """

    takes_sparse = True
    not_negative = ("lr_decay", "weight_decay", "initial_accumulator_value", "eps")

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, options(locals()))
        for group in self.param_groups:  # PyTorch's Adagrad has its state from the start
            self._start_states(group["params"], group)

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        start = group["initial_accumulator_value"]
        return {"sum": torch.full_like(param.detach(), start)}

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        lr, lr_decay = group["lr"], group["lr_decay"]

        def decayed_lr(step: torch.Tensor) -> Any:
            return lr if lr_decay == 0 else lr / (1 + (step - 1) * lr_decay)

        self._advance(params, group)
        for param, rate in zip(params, self._per_step(params, decayed_lr), strict=True):
            if param.grad.is_sparse:
                self._update_rows(param, group, rate)
                continue
            grad = decayed_grad(param, group)
            total = self.state[param]["sum"].addcmul_(grad, grad, value=1)
            descend(param, grad / (total.sqrt() + group["eps"]), rate)

    def _update_rows(self, param: torch.Tensor, group: Group, rate: Scalar) -> None:
        """Change only the elements that a sparse gradient has."""
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = signed_grad(param, group).coalesce()
        places, values = tuple(grad.indices()), grad.values()
        total = self.state[param]["sum"]
        total[places] = sums = total[places] + values * values
        param[places] -= rate * values / (sums.sqrt() + group["eps"])
