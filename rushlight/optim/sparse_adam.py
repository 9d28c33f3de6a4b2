"""SparseAdam: Adam that touches only the rows for which there is a sparse gradient."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.optim.grouped import (
    Group,
    GroupedOptimizer,
    Scalar,
    State,
    bias_correction,
    options,
    root,
    zeros,
)
from rushlight.optim.optimizer import Params


class SparseAdam(GroupedOptimizer):
    """Moments and parameters change only where the sparse gradient has entries.

    It takes sparse gradients only, as PyTorch's does; a dense one is an error.
    """

    takes_sparse = True
    not_negative = ("eps",)

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))
        numbers = [
            place
            for place, param in enumerate(p for g in self.param_groups for p in g["params"])
            if getattr(param, "is_sparse", False)
        ]
        if numbers:
            raise ValueError(
                f"Sparse params at indices {numbers}: SparseAdam requires dense parameter tensors"
            )

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        return zeros(param, "exp_avg", "exp_avg_sq")

    def step(self, closure: Any = None) -> Any:
        """Update the rows that have a gradient; return the loss of `closure`."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None and not getattr(param.grad, "is_sparse", False):
                    raise RuntimeError(
                        "SparseAdam does not support dense gradients, please consider Adam instead"
                    )
        super().step()
        return loss

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        beta1, beta2 = group["betas"]

        def rates(step: torch.Tensor) -> Any:
            correction = root(bias_correction(beta2, step))
            return group["lr"] * correction / bias_correction(beta1, step)

        self._advance(params, group)
        for param, step_size in zip(params, self._per_step(params, rates), strict=True):
            grad = param.grad.coalesce()
            places = tuple(grad.indices())
            values = -grad.values() if group["maximize"] else grad.values()
            if not values.numel():
                continue
            state = self.state[param]
            average, square = state["exp_avg"][places], state["exp_avg_sq"][places]
            average = average + (1 - beta1) * (values - average)
            square = square + (1 - beta2) * (values * values - square)
            state["exp_avg"][places], state["exp_avg_sq"][places] = average, square
            param[places] -= step_size * average / (square.sqrt() + group["eps"])
