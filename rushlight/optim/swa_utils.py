"""Averages of a model's parameters over training (Izmailov et al. 2018), plain or exponential."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import rushlight as torch
from rushlight.optim.lr_scheduler import LRScheduler
from rushlight.optim.lr_scheduler.base import per_group
from rushlight.optim.optimizer import Optimizer

Tensor = torch.Tensor
Average = Callable[[Tensor, Tensor, Any], Tensor]
AverageAll = Callable[[list[Tensor], list[Tensor], Any], None]


def check_decay(decay: float) -> None:
    """Raise for a decay outside [0, 1]."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return the function decay * average + (1 - decay) * value, for one tensor."""
    check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """Return the function that keeps the mean of all values, for one tensor."""

    @torch.no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def over_lists(average: Average) -> AverageAll:
    """Make a function of lists, which it changes in place, from one of tensors."""

    @torch.no_grad()
    def update(averages: list[Tensor], values: list[Tensor], num_averaged: Any) -> None:
        for averaged, value in zip(averages, values, strict=True):
            averaged.copy_(average(averaged, value, num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageAll:
    """Return the function decay * average + (1 - decay) * value, in place, for lists."""
    return over_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> AverageAll:
    """Return the function that keeps the mean of all values, in place, for lists."""
    return over_lists(get_swa_avg_fn())


class AveragedModel(torch.nn.Module):
    """A copy of a model whose parameters are averages; by default the mean of all updates.

    Args:
        avg_fn: of (average, value, count of values so far), for one parameter.
        multi_avg_fn: the same for lists of parameters, in place.
        use_buffers: average the buffers too; else they are copied at each update.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> averaged = AveragedModel(model)
        >>> for value in (1.0, 3.0):
        ...     with torch.no_grad():
        ...         _ = model.weight.fill_(value)
        ...     averaged.update_parameters(model)
        >>> averaged.module.weight.item()
        2.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: torch.nn.Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: AverageAll | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the averaged model."""
        return self.module(*args, **kwargs)

    def _averaged_tensors(self, model: torch.nn.Module) -> list[Tensor]:
        found: Iterable[Tensor] = model.parameters()
        if self.use_buffers:
            found = itertools.chain(found, model.buffers())
        return [tensor.detach() for tensor in found]

    def _average_all(self) -> AverageAll:
        if self.multi_avg_fn is not None:
            return self.multi_avg_fn
        return get_swa_multi_avg_fn() if self.avg_fn is None else over_lists(self.avg_fn)

    @torch.no_grad()
    def update_parameters(self, model: torch.nn.Module) -> None:
        """Take the parameters that `model` has now into the average."""
        averages = self._averaged_tensors(self.module)
        values = [
            value.to(average.device)
            for value, average in zip(self._averaged_tensors(model), averages, strict=True)
        ]
        if self.n_averaged.item() == 0:
            for average, value in zip(averages, values, strict=True):
                average.copy_(value)
        else:
            self._average_all()(averages, values, self.n_averaged)
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                own.copy_(other.to(own.device))
        self.n_averaged += 1


@torch.no_grad()
def update_bn(loader: Iterable[Any], model: torch.nn.Module, device: Any = None) -> None:
    """Compute the running statistics of all BatchNorm layers anew, in one pass over the data.

    Of a batch that is a list or a tuple the first entry is the input.
    """
    norms = [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
    ]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    was_training = model.training
    model.train()
    for batch in loader:
        input = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(input if device is None else input.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Go to the rate `swa_lr` in `anneal_epochs` epochs and stay there.

    Example:
        >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = SWALR(optimizer, 0.5, anneal_epochs=1)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = per_group("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How much of the way is done after a number of steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        """The rate of this step, from that of the step before."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            first = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * now + first * (1 - now))
        return rates
