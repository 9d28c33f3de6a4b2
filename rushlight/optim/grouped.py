"""What the optimizers of this package share: options, one update per group, step counters.

A step counter, `state["step"]`, is a 0-dim float32 tensor as in PyTorch's state dicts. All
parameters that start in the same step share one counter, so a step adds one to it once and
computes its corrections once, as tensor operations: a captured training step replays with no
Python, and no tensor value is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.optim.optimizer import Optimizer, Params

Group = dict[str, Any]
State = dict[str, Any]
Scalar = float | torch.Tensor


def options(scope: dict[str, Any]) -> dict[str, Any]:
    """The options among the names of a constructor: call it with `locals()` first of all."""
    return {key: scope[key] for key in scope if key not in ("self", "params", "__class__")}


class GroupedOptimizer(Optimizer):
    """Calls `_update` with the parameters of a group that have a gradient.

    A subclass says which options must not be negative; `foreach`, `fused` and `capturable` are
    accepted and change nothing, since every step is tensor operations that the compiler joins.
    """

    has_step_counter = True
    reads_values = False  # does `_update` look at the value of a tensor?
    not_negative: tuple[str, ...] = ("eps", "weight_decay")
    takes_sparse = False  # sparse gradients?

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self._check_options(defaults)
        super().__init__(params, defaults)
        if defaults.get("fused") and defaults.get("differentiable"):
            raise RuntimeError("`fused` does not support `differentiable`")

    def _check_options(self, given: dict[str, Any]) -> None:
        """Raise for options that no training has."""
        check_lr(given["lr"])
        for name in self.not_negative:
            if not 0.0 <= given[name]:
                label = "epsilon" if name == "eps" else name
                raise ValueError(f"Invalid {label} value: {given[name]}")
        for place, beta in enumerate(given.get("betas", ())):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {place}: {beta}")

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
                    self._update_all(params, group)
        return loss

    def _update_all(self, params: list[torch.Tensor], group: Group) -> None:
        whole = [param for param in params if not param.is_complex()]
        if whole:
            update(self, whole, group)
        if len(whole) < len(params):
            self._update_complex([param for param in params if param.is_complex()], group)

    def _update_complex(self, params: list[torch.Tensor], group: Group) -> None:
        """Update complex parameters: the real and the imaginary parts each as a number of its own,
        as PyTorch does."""
        views = [torch.view_as_real(param) for param in params]
        for param, view in zip(params, views, strict=True):
            view.grad = as_real(param.grad)
            self.state[view] = {name: as_real(v) for name, v in self.state[param].items()}
        try:
            self._update(views, group)
        finally:
            for param, view in zip(params, views, strict=True):
                # What is not made in place is made anew: a counter, SGD's first momentum.
                found, own = self.state.pop(view), self.state[param]
                for name, value in found.items():
                    if not (name in own and torch.is_complex(own[name])):
                        own[name] = as_complex(value, view)

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
            if param.grad is not None and param.grad.is_sparse and not self.takes_sparse:
                raise RuntimeError(
                    f"{type(self).__name__} does not support sparse gradients, please consider "
                    "SparseAdam, SGD or Adagrad instead"
                )
            if self.has_step_counter:
                if param.device not in counters:
                    counters[param.device] = torch.zeros(
                        (), dtype=torch.float32, device=param.device
                    )
                state["step"] = counters[param.device]
            if param.is_complex():
                view = torch.view_as_real(param.detach())
                first = self._first_state(view, group)
                state.update({name: as_complex(value, view) for name, value in first.items()})
            else:
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


def update(optimizer: GroupedOptimizer, params: list[torch.Tensor], group: Group) -> None:
    """Call `_update`, or make the same update as before where that is known."""
    if hasattr(torch, "repeat_update"):
        torch.repeat_update(optimizer, params, read_again(group))
    else:
        optimizer._update(params, group)


def read_again(group: Group) -> Group:
    """The options as `_update` reads them: a replayed step takes the rate of its time."""
    return torch.replayed_settings(group) if hasattr(torch, "replayed_settings") else group


def as_real(value: Any) -> Any:
    """A complex tensor as a view with real and imaginary parts; anything else as it is."""
    is_complex = isinstance(value, torch.Tensor) and value.is_complex()
    return torch.view_as_real(value) if is_complex else value


def as_complex(value: Any, like: torch.Tensor) -> Any:
    """A tensor of the shape of `like`, which holds the parts of complex numbers, as a complex one;
    anything else as it is."""
    fits = isinstance(value, torch.Tensor) and value.shape == like.shape
    return torch.view_as_complex(value) if fits else value


def is_zero(value: Any) -> bool:
    """Say if a setting is the number 0; a tensor's value is not looked at."""
    return not isinstance(value, torch.Tensor) and value == 0


def zeros(param: torch.Tensor, *names: str) -> State:
    """A state of zeros, each of the parameter's shape."""
    return {name: torch.zeros_like(param.detach()) for name in names}


def signed_grad(param: torch.Tensor, group: Group) -> torch.Tensor:
    """Return the gradient, with its sign turned by `maximize`."""
    return -param.grad if group["maximize"] else param.grad


def decayed_grad(param: torch.Tensor, group: Group) -> torch.Tensor:
    """Return the gradient, with its sign turned by `maximize`, plus the weight decay.

    With `decoupled_weight_decay` the parameter shrinks instead, in place.
    """
    grad = signed_grad(param, group)
    decay = group["weight_decay"]
    if is_zero(decay):
        return grad
    if group.get("decoupled_weight_decay"):
        param.mul_(1 - group["lr"] * decay)
        return grad
    if isinstance(decay, torch.Tensor):
        return grad + param * decay
    return grad.add(param, alpha=decay)


def descend(param: torch.Tensor, direction: torch.Tensor, lr: Scalar) -> None:
    """Subtract lr * direction in place."""
    if isinstance(lr, torch.Tensor):
        param.sub_(direction * lr)
    else:
        param.add_(direction, alpha=-lr)


def decay_towards(average: torch.Tensor, value: torch.Tensor, beta: Scalar) -> torch.Tensor:
    """average = beta * average + (1 - beta) * value, in place."""
    if isinstance(beta, torch.Tensor):
        return average.add_((value - average) * (1 - beta))
    return average.lerp_(value, 1 - beta)


def decay_towards_square(square: torch.Tensor, value: torch.Tensor, beta: Scalar) -> torch.Tensor:
    """square = beta * square + (1 - beta) * value**2, in place."""
    if isinstance(beta, torch.Tensor):
        return square.mul_(beta).add_(value * value * (1 - beta))
    return square.mul_(beta).addcmul_(value, value, value=1 - beta)


def kept(tensor: torch.Tensor, group: Group) -> torch.Tensor:
    """The tensor; a copy where backward will need it after the next step changes it in place."""
    return tensor.clone() if group["differentiable"] else tensor


def bias_correction(beta: Scalar, step: torch.Tensor) -> Scalar:
    """Return 1 - beta**step as a 0-dim tensor, or 1 where beta is 0.

    Computed as -expm1(step * log(beta)): in float32 the plain form loses half of its digits in
    the first steps, where beta**step is almost 1.
    """
    if isinstance(beta, torch.Tensor):
        return -torch.expm1(step * torch.log(beta.to(step.device, step.dtype)))
    return 1.0 if beta == 0 else -torch.expm1(step * math.log(beta))


def root(value: Scalar) -> Scalar:
    """The square root of a number or a tensor."""
    return value.sqrt() if isinstance(value, torch.Tensor) else math.sqrt(value)


def check_lr(lr: Scalar) -> None:
    """Raise for a learning rate no optimizer takes."""
    if isinstance(lr, torch.Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")
