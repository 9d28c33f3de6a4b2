"""Adam and AdamW (Kingma and Ba 2014; Loshchilov and Hutter 2017; Reddi et al. 2018)."""

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


def check_tensor_betas(
    betas: tuple[Scalar, Scalar], capturable: bool, foreach: bool | None
) -> None:
    """Raise for betas of mixed kinds, and for tensors where PyTorch takes none."""
    kinds = [isinstance(beta, torch.Tensor) for beta in betas]
    floats = [isinstance(beta, float) for beta in betas]
    if not (all(kinds) or all(floats)):
        raise ValueError("betas must be either both floats or both Tensors")
    for place, is_tensor in enumerate(kinds):
        if not is_tensor:
            continue
        if not capturable and foreach:
            raise ValueError(
                f"betas[{place}] as a Tensor is not supported for capturable=False and foreach=True"
            )
        if betas[place].numel() != 1:
            raise ValueError(f"Tensor betas[{place}] must be 1-element")


class Adam(GroupedOptimizer):
    """Steps of the mean gradient divided by the root of the mean square gradient.

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
        given = options(locals())
        if isinstance(lr, torch.Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        given["betas"] = tuple(b.squeeze() if isinstance(b, torch.Tensor) else b for b in betas)
        super().__init__(params, given)

    def _check_options(self, given: dict[str, Any]) -> None:
        super()._check_options(given)
        check_tensor_betas(given["betas"], given["capturable"], given["foreach"])

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        names = ["exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if group["amsgrad"] else [])
        return zeros(param, *names)

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        beta1, beta2 = group["betas"]

        def corrections(step: torch.Tensor) -> tuple[Scalar, Scalar]:
            return group["lr"] / bias_correction(beta1, step), root(bias_correction(beta2, step))

        self._advance(params, group)
        found = self._per_step(params, corrections)
        for param, (step_size, correction) in zip(params, found, strict=True):
            self._update_one(param, group, step_size, correction)

    def _update_one(
        self, param: torch.Tensor, group: Group, step_size: Scalar, correction: Scalar
    ) -> None:
        state = self.state[param]
        beta1, beta2 = group["betas"]
        grad = decayed_grad(param, group)
        average = decay_towards(state["exp_avg"], grad, beta1)
        square = decay_towards_square(state["exp_avg_sq"], grad, beta2)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            square = largest.copy_(torch.maximum(largest, square))
        denominator = square.sqrt() / correction + group["eps"]
        param.sub_(kept(average, group) / denominator * step_size)


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
        super().__init__(params, **options(locals()), decoupled_weight_decay=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep the decay decoupled, whatever the loaded groups say."""
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
