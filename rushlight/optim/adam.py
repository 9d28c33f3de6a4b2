"""Adam and AdamW (Kingma and Ba 2014; Loshchilov and Hutter 2017; Reddi et al. 2018).

The bias corrections 1 - beta**step are computed as -expm1(step * log(beta)): in float32 the
plain form loses half of its digits in the first steps, where beta**step is almost 1.
"""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.optim.grouped import (
    Group,
    GroupedOptimizer,
    State,
    check_fused,
    check_lr,
    decayed_grad,
)
from rushlight.optim.optimizer import Params

Scalar = float | torch.Tensor


def check_betas(betas: tuple[Scalar, Scalar], capturable: bool, foreach: bool | None) -> None:
    """Raise for betas outside [0, 1) or of mixed types."""
    for place in (0, 1):
        if not 0.0 <= betas[place] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {place}: {betas[place]}")
    kinds = [isinstance(beta, torch.Tensor) for beta in betas]
    floats = [isinstance(beta, float) for beta in betas]
    if not (all(kinds) or all(floats)):
        raise ValueError("betas must be either both floats or both Tensors")
    for place in (0, 1):
        if not kinds[place]:
            continue
        if not capturable and foreach:
            raise ValueError(
                f"betas[{place}] as a Tensor is not supported for capturable=False and foreach=True"
            )
        if betas[place].numel() != 1:
            raise ValueError(f"Tensor betas[{place}] must be 1-element")


def bias_correction(beta: Scalar, step: torch.Tensor) -> Scalar | torch.Tensor:
    """Return 1 - beta**step as a 0-dim tensor, or 1 where beta is 0."""
    if isinstance(beta, torch.Tensor):
        return -torch.expm1(step * torch.log(beta.to(step.device, step.dtype)))
    return 1.0 if beta == 0 else -torch.expm1(step * math.log(beta))


def decay_towards(average: torch.Tensor, value: torch.Tensor, beta: Scalar) -> None:
    """average = beta * average + (1 - beta) * value, in place."""
    if isinstance(beta, torch.Tensor):
        average.add_((value - average) * (1 - beta))
    else:
        average.lerp_(value, 1 - beta)


class Adam(GroupedOptimizer):
    """Steps of the mean gradient divided by the root of the mean square gradient.

    `foreach`, `fused` and `capturable` are accepted and change nothing: every step is recorded
    as tensor operations only, which the compiler joins.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = Adam([weight], lr=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.9000])
    """

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1e-3,
        betas: tuple[Scalar, Scalar] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, torch.Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        check_lr(lr)
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas, capturable, foreach)
        if not 0.0 <= weight_decay:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        defaults: dict[str, Any] = {
            "lr": lr,
            "betas": tuple(b.squeeze() if isinstance(b, torch.Tensor) else b for b in betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_fused(fused, differentiable)

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        names = ["exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if group["amsgrad"] else [])
        return {name: torch.zeros_like(param.detach()) for name in names}

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        beta1, beta2 = group["betas"]

        def corrections(step: torch.Tensor) -> tuple[torch.Tensor, Any]:
            second = bias_correction(beta2, step)
            root = second.sqrt() if isinstance(second, torch.Tensor) else math.sqrt(second)
            return group["lr"] / bias_correction(beta1, step), root

        self._advance(params, group)
        for param, (step_size, root) in zip(
            params, self._per_step(params, corrections), strict=True
        ):
            self._update_one(param, group, step_size, root)

    def _update_one(
        self, param: torch.Tensor, group: Group, step_size: Scalar, root: Scalar
    ) -> None:
        state = self.state[param]
        beta1, beta2 = group["betas"]
        if group["decoupled_weight_decay"]:
            grad = -param.grad if group["maximize"] else param.grad
            if group["weight_decay"] != 0:
                param.mul_(1 - group["lr"] * group["weight_decay"])
        else:
            grad = decayed_grad(param, group)
        decay_towards(state["exp_avg"], grad, beta1)
        square = state["exp_avg_sq"]
        if isinstance(beta2, torch.Tensor):
            square.mul_(beta2).add_(grad * grad * (1 - beta2))
        else:
            square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            square = largest.copy_(torch.maximum(largest, square))
        denominator = square.sqrt() / root + group["eps"]
        average = state["exp_avg"]
        if group["differentiable"]:  # the next step changes it in place; backward needs it
            average = average.clone()
        param.sub_(average / denominator * step_size)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters directly.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = AdamW([weight], lr=0.1, weight_decay=0.5)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.8500])
    """

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1e-3,
        betas: tuple[Scalar, Scalar] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep the decay decoupled, whatever the loaded groups say."""
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
