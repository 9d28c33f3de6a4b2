"""An optimizer with other parameters and another state, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import rushlight as torch
from rushlight.optim.optimizer import Optimizer


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: dict[str, torch.Tensor],
    swapin_optim_state: dict[str, Any],
) -> Iterator[None]:
    """Let an optimizer work on other parameters and state; give it its own back at the end.

    Args:
        optimizer: its own state must exist already.
        swapin_parameters: as many tensors as it has, in the same order.
        swapin_optim_state: of the form of `state_dict()`; its tensors are changed in place.

    Example:
        >>> own, other = (torch.ones(1, requires_grad=True) for _ in range(2))
        >>> optimizer = torch.optim.SGD([own], lr=0.5)
        >>> other.grad = torch.ones(1)
        >>> state = optimizer.state_dict()
        >>> with swap_in_optimizer_params_and_state(optimizer, {"w": other}, state):
        ...     optimizer.step()
        >>> own.item(), other.item()
        (1.0, 0.5)
    """
    own_groups, own_state = optimizer.param_groups, optimizer.state
    tensors = [*swapin_parameters.values()]
    count = sum(len(group["params"]) for group in own_groups)
    if len(tensors) != count:
        raise ValueError(f"swapin_parameters holds {len(tensors)} tensors, expected {count}")
    groups = [
        {**group, "params": [tensors[number] for number in group["params"]]}
        for group in swapin_optim_state["param_groups"]
    ]
    state = type(own_state)(dict)
    for number, value in swapin_optim_state["state"].items():
        state[tensors[number]] = dict(value)
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = own_groups, own_state
