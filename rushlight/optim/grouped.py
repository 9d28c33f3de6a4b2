"""What the optimizers of this package share: one update per group, and step counters.

A step counter, `state["step"]`, is a 0-dim float32 tensor as in PyTorch's state dicts. All
parameters that start in the same step share one counter, so a step adds one to it once and
computes its corrections once, as tensor operations: a captured training step replays with no
Python, and no tensor value is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.optim.optimizer import Optimizer

Group = dict[str, Any]
State = dict[str, Any]


class GroupedOptimizer(Optimizer):
    """Calls `_update` with the parameters of a group that have a gradient."""

    has_step_counter = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; return the loss of `closure`."""
        loss = None
        with torch.set_grad_enabled(bool(self.defaults.get("differentiable"))):
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                params = [param for param in group["params"] if param.grad is not None]
                if params:
                    self._start_states(params, group)
                    self._update(params, read_again(group))
        return loss

    def _update(self, params: list[torch.Tensor], group: Group) -> None:
        """Change the parameters in place."""
        raise NotImplementedError

    def _first_state(self, param: torch.Tensor, group: Group) -> State:
        """Return the state of a parameter before its first step."""
        raise NotImplementedError

    def _start_states(self, params: list[torch.Tensor], group: Group) -> None:
        counters: dict[torch.device, torch.Tensor] = {}
        for param in params:
            state = self.state[param]
            if state:
                continue
            if self.has_step_counter:
                if param.device not in counters:
                    counters[param.device] = torch.zeros(
                        (), dtype=torch.float32, device=param.device
                    )
                state["step"] = counters[param.device]
            state.update(self._first_state(param, group))

    def _advance(self, params: list[torch.Tensor], group: Group) -> None:
        """Add one to the counter of each parameter.

        A parameter that sits out this step must not see the others' counter grow: then the
        others go on with a counter of their own.
        """
        active = {id(param) for param in params}
        idle = {
            id(self.state[param]["step"])
            for param in group["params"]
            if id(param) not in active and "step" in self.state.get(param, ())
        }
        advanced: dict[int, torch.Tensor] = {}
        for param in params:
            step = self.state[param]["step"]
            if id(step) not in advanced:
                counter = step.clone() if id(step) in idle else step
                advanced[id(step)] = counter.add_(1)
            self.state[param]["step"] = advanced[id(step)]

    def _per_step(
        self, params: list[torch.Tensor], compute: Callable[[torch.Tensor], Any]
    ) -> list[Any]:
        """Return `compute(step)` for each parameter; equal counters compute once."""
        computed: dict[tuple[int, bool], Any] = {}
        out = []
        for param in params:
            step = self.state[param]["step"]
            is_double = param.dtype == torch.float64
            key = (id(step), is_double)
            if key not in computed:
                computed[key] = compute(step.to(torch.float64) if is_double else step)
            out.append(computed[key])
        return out


def read_again(group: Group) -> Group:
    """The options as `_update` reads them: a replayed step takes the rate of its time."""
    return torch.replayed_settings(group) if hasattr(torch, "replayed_settings") else group


def is_zero(value: Any) -> bool:
    """Say if a setting is the number 0; a tensor's value is not looked at."""
    return not isinstance(value, torch.Tensor) and value == 0


def decayed_grad(param: torch.Tensor, group: Group) -> torch.Tensor:
    """Return the gradient, with its sign turned by `maximize`, plus the weight decay."""
    grad = -param.grad if group["maximize"] else param.grad
    decay = group["weight_decay"]
    if is_zero(decay):
        return grad
    if isinstance(decay, torch.Tensor):
        return grad + param * decay
    return grad.add(param, alpha=decay)


def descend(param: torch.Tensor, direction: torch.Tensor, lr: float | torch.Tensor) -> None:
    """Subtract lr * direction in place."""
    if isinstance(lr, torch.Tensor):
        param.sub_(direction * lr)
    else:
        param.add_(direction, alpha=-lr)


def check_lr(lr: float | torch.Tensor) -> None:
    """Raise for a learning rate no optimizer takes."""
    if isinstance(lr, torch.Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_not_negative(settings: dict[str, Any]) -> None:
    """Raise for a negative (or NaN) setting; the keys are the names in the message."""
    for name, value in settings.items():
        if not 0.0 <= value:
            raise ValueError(f"Invalid {name}: {value}")


def check_fused(fused: bool | None, differentiable: bool) -> None:
    """Raise when `fused` is asked for together with what it excludes in PyTorch."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
