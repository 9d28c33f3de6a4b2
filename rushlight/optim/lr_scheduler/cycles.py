"""Cyclic schedules of learning rate and momentum (Smith 2015; Smith and Topin 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.optim.lr_scheduler.base import (
    Lr,
    LRScheduler,
    check_optimizer,
    per_group,
    saved_callable,
    set_value,
)
from rushlight.optim.optimizer import Optimizer


class _MomentumCycle(LRScheduler):
    """The shared part: momentum, or the first beta, moves against the learning rate."""

    cycle_momentum: bool
    use_beta1: bool

    def _start_momentum(self, base: Any, highest: Any, last_epoch: int) -> tuple[list, list]:
        """Check the optimizer, set the highest momentum and return both lists."""
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in defaults
        base_momentums = per_group("base_momentum", self.optimizer, base)
        max_momentums = per_group("max_momentum", self.optimizer, highest)
        if last_epoch == -1:
            groups = self.optimizer.param_groups
            for group, low, high in zip(groups, base_momentums, max_momentums, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return base_momentums, max_momentums

    def _set_momentum(self, group: dict[str, Any], momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_MomentumCycle):
    """Up and down between two learning rates.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        >>> CyclicLR(optimizer, base_lr=0.01, max_lr=0.1).get_last_lr()
        [0.01]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = float(step_size_up) / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(
                base_momentum, max_momentum, last_epoch
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the height of a cycle, by its number or by the iteration."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Lr]:
        """Compute the learning rates; also set the momentum."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        is_rising = x <= self.step_ratio
        share = x / self.step_ratio if is_rising else (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            pairs = zip(self.base_momentums, self.max_momentums, strict=True)
            momentums = [high - (high - low) * share * height for low, high in pairs]
            for group, momentum in zip(self.optimizer.param_groups, momentums, strict=True):
                self._set_momentum(group, momentum)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * share * height for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Return the fields; a function as scale is left out."""
        return {
            **super().state_dict(),
            "_scale_fn_custom": saved_callable(self._scale_fn_custom),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the fields; a callable object as scale gets its own back."""
        fields = dict(state_dict)
        saved = fields.pop("_scale_fn_custom")
        self.__dict__.update(fields)
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)


class OneCycleLR(_MomentumCycle):
    """One rise to the highest learning rate and one fall far below the first.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        >>> OneCycleLR(optimizer, 0.5, total_steps=9, anneal_strategy="linear").get_last_lr()
        [0.02]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = count_steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = one_cycle_phases(self.total_steps, pct_start, three_phase)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for group, lr in zip(
                optimizer.param_groups, per_group("max_lr", optimizer, max_lr), strict=True
            ):
                group["initial_lr"] = lr / div_factor
                group["max_lr"] = lr
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: Lr, end: Lr, share: float) -> Lr:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[Lr]:
        """Compute the learning rates; also set the momentum."""
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start_step = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start_step = phase["end_step"]
        share = (step - start_step) / (phase["end_step"] - start_step)
        lrs = []
        for group in self.optimizer.param_groups:
            lrs.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._anneal(*ends, share))
        return lrs


def count_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    """Return the length of the schedule from what the caller gave."""
    if total_steps is not None:
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in {"epochs": epochs, "steps_per_epoch": steps_per_epoch}.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps_per_epoch


def one_cycle_phases(total_steps: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """Return where each phase ends and between which group options it moves."""

    def phase(end_step: float, lrs: tuple[str, str], momentums: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end_step,
            "start_lr": lrs[0],
            "end_lr": lrs[1],
            "start_momentum": momentums[0],
            "end_momentum": momentums[1],
        }

    high, low = "max_momentum", "base_momentum"
    rise = phase(float(pct_start * total_steps) - 1, ("initial_lr", "max_lr"), (high, low))
    if not three_phase:
        return [rise, phase(total_steps - 1, ("max_lr", "min_lr"), (low, high))]
    fall_end = float(2 * pct_start * total_steps) - 2
    return [
        rise,
        phase(fall_end, ("max_lr", "initial_lr"), (low, high)),
        phase(total_steps - 1, ("initial_lr", "min_lr"), (high, high)),
    ]
