"""LRScheduler: the base class, and the helpers that read and write group options."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rushlight as torch
from rushlight.optim.optimizer import Optimizer

Lr = Any  # a float, or a 0-dim tensor that keeps its identity in the group

EPOCH_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)
ORDER_WARNING = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and "
    "later, you should call them in the opposite order: `optimizer.step()` before "
    "`lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping the first value "
    "of the learning rate schedule. See more details at "
    "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)
ASK_LAST_WARNING = (
    "To get the last learning rate computed by the scheduler, please use `get_last_lr()`."
)


def copied(value: Lr) -> Lr:
    """Copy a tensor; return a number as it is."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def group_values(optimizer: Optimizer, key: str) -> list[Lr]:
    """Return the option `key` of each group; tensors are copied."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Lr) -> None:
    """Set an option; a tensor in the group stays the same object."""
    if isinstance(group[key], torch.Tensor):
        group[key].fill_(value)
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Lr]:
    """Return one value per group, from one for all or from a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * count
    elif len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {count}."
        )
    return [copied(item) for item in value]


def check_optimizer(optimizer: Any) -> None:
    """Raise for anything but an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """Base class: `step()` sets each group's learning rate to what `get_lr()` returns.

    Example:
        >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        """Remember the first learning rates and set those of the first epoch."""
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for place, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{place}] when resuming "
                    "scheduler with last_epoch >= 0.\nThis typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly "
                    "loaded the optimizer state\n"
                    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs: list[Lr] = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return all fields but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the fields."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Lr]:
        """Return the learning rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[Lr]:
        """Compute the learning rates of `last_epoch`; subclasses define it."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch; call it after `optimizer.step()`."""
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(ORDER_WARNING, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        has_closed_form = epoch is not None and hasattr(self, "_get_closed_form_lr")
        with self._within_step():
            values = self._get_closed_form_lr() if has_closed_form else self.get_lr()
        self._set_lrs(values)

    def _set_lrs(self, values: list[Lr]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_value(group, "lr", value)
        self._last_lr: list[Lr] = self._current_lrs()

    @contextmanager
    def _within_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _current_lrs(self) -> list[Lr]:
        return group_values(self.optimizer, "lr")

    def _scaled_lrs(self, factor: float) -> list[Lr]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(ASK_LAST_WARNING, UserWarning, stacklevel=3)


def saved_callable(fn: Callable[..., Any] | None) -> dict[str, Any] | None:
    """Return the fields of a callable object; plain functions and lambdas are not saved."""
    return None if fn is None or isinstance(fn, types.FunctionType) else fn.__dict__.copy()


class _LRScheduler(LRScheduler):
    """The name that old code derives its schedules from."""
