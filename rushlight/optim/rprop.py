"""Rprop: steps by the sign of the gradient only (Riedmiller and Braun 1993)."""

from __future__ import annotations

import rushlight as torch
from rushlight.optim.grouped import Group, GroupedOptimizer, Scalar, State, options, signed_grad
from rushlight.optim.optimizer import Params


class Rprop(GroupedOptimizer):
    """Each element's step grows while its gradient keeps its sign, and shrinks when it turns.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = Rprop([weight], lr=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.9000])
    """

    not_negative = ()

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        given = options(locals())
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, given)

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        lr = group["lr"]
        start = torch.full_like(param.detach(), lr.item() if isinstance(lr, torch.Tensor) else lr)
        return {"prev": torch.zeros_like(param.detach()), "step_size": start}

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        shrink, grow = group["etas"]
        low, high = group["step_sizes"]
        self._advance(params, group)
        for param in params:
            state = self.state[param]
            grad = signed_grad(param, group)
            agreement = grad * state["prev"]
            size = state["step_size"]
            size = torch.where(agreement > 0, size * grow, size)
            size = torch.where(agreement < 0, size * shrink, size).clamp(low, high)
            grad = torch.where(agreement < 0, 0.0, grad)  # after a turn: one step without moving
            param.sub_(grad.sign() * size)
            state["step_size"].copy_(size)
            state["prev"].copy_(grad)
