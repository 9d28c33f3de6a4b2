"""Adafactor: second moments kept as one row and one column (Shazeer and Stern 2018)."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.optim.grouped import Group, GroupedOptimizer, Scalar, State, options, signed_grad
from rushlight.optim.optimizer import Params


class Adafactor(GroupedOptimizer):
    """Steps relative to the size of the parameter, with little state for matrices.

    Args:
        beta2_decay: the power of the step by which the memory of second moments grows.
        eps: the least square of a gradient (None: that of the dtype), the least size of a
            parameter.
        d: updates with a larger root mean square are scaled down to it.

    Example:
        >>> weight = torch.ones(2, 3, requires_grad=True)
        >>> optimizer = Adafactor([weight])
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> sorted(optimizer.state[weight])
        ['col_var', 'row_var', 'step']
    """

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _check_options(self, given: dict[str, Any]) -> None:
        lr, eps = given["lr"], given["eps"]
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value, least in (
            ("Learning rate", lr, 0),
            ("beta2_decay", -given["beta2_decay"], 0),
            ("epsilon1", 0 if eps[0] is None else eps[0], 0),
            ("epsilon2", eps[1], 0),
            ("Clipping threshold d", given["d"], 1),
            ("weight_decay", given["weight_decay"], 0),
        ):
            if value >= least:
                continue
            if name == "beta2_decay":
                raise ValueError(f"beta2_decay should be <= 0 but is: {-value}")
            raise ValueError(f"{name} should be >= {least} but is: {value}")

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        if param.grad.dim() < 2:
            return {"variance": torch.zeros_like(param.grad)}
        shape = list(param.grad.shape)
        row, column = [*shape[:-1], 1], [*shape[:-2], 1, shape[-1]]
        return {"row_var": param.grad.new_zeros(row), "col_var": param.grad.new_zeros(column)}

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        lr = group["lr"]

        def rates(step: torch.Tensor) -> tuple[Any, Any]:
            return step ** group["beta2_decay"], torch.clamp(step.rsqrt(), max=lr)

        self._advance(params, group)
        for param, (share, rate) in zip(params, self._per_step(params, rates), strict=True):
            least = group["eps"][0]
            least = torch.finfo(param.dtype).eps if least is None else least
            grad = signed_grad(param, group)
            size = math.sqrt(param.numel())
            norm = torch.linalg.vector_norm(param.detach()) / size
            step_size = torch.clamp(norm, min=group["eps"][1]) * rate
            if group["weight_decay"] != 0:
                param.mul_(1 - lr * group["weight_decay"])
            variance = self._variance(self.state[param], grad, share, least)
            update = torch.clamp(variance, min=least * least).rsqrt() * grad
            spread = torch.linalg.vector_norm(update) / (size * group["d"])
            param.sub_(update * (step_size / torch.clamp(spread, min=1.0)))

    def _variance(
        self, state: State, grad: torch.Tensor, share: torch.Tensor, least: float
    ) -> torch.Tensor:
        """Move the second moments towards those of `grad`; return the estimate of each element."""
        square = grad * grad
        if grad.dim() < 2:
            return state["variance"].add_((square - state["variance"]) * share)
        row, column = state["row_var"], state["col_var"]
        row.add_((square.mean(-1, keepdim=True) - row) * share)
        column.add_((square.mean(-2, keepdim=True) - column) * share)
        return row @ column / torch.clamp(row.mean(-2, keepdim=True), min=least)
