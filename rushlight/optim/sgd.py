"""SGD: stochastic gradient descent with momentum."""

from __future__ import annotations

import rushlight as torch
from rushlight.optim.grouped import (
    Group,
    GroupedOptimizer,
    Scalar,
    State,
    decayed_grad,
    descend,
    options,
)
from rushlight.optim.optimizer import Params


class SGD(GroupedOptimizer):
    """param -= lr * buffer, where buffer = momentum * buffer + (1 - dampening) * grad.

    `foreach` and `fused` are accepted and change nothing: the compiler joins the updates of a
    step anyway.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = SGD([weight], lr=0.1, momentum=0.9)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.9000])
    """

    has_step_counter = False
    not_negative = ("momentum", "weight_decay")

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Scalar = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        given = options(locals())
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, given)

    def _start_states(self, params: list[torch.Tensor], group: Group) -> None:
        """The first gradient itself is the first momentum buffer: nothing to prepare."""

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        return {}

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        for param in params:
            direction = decayed_grad(param, group)
            if group["momentum"] != 0:
                direction = self._with_momentum(param, direction, group)
            descend(param, direction, group["lr"])

    def _with_momentum(self, param: torch.Tensor, grad: torch.Tensor, group: Group) -> torch.Tensor:
        state = self.state[param]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = grad.detach().clone()
        else:
            buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
        return grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
