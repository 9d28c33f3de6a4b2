"""Copies of a module, one for each device; all devices are the CPU."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.nn.modules.module import Module

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """The module once for each device. On one CPU the copies share parameters and buffers.

    detach: gradients of the copies do not reach the module. Raises NotImplementedError for devices
    other than the CPU.

    >>> model = torch.nn.Linear(2, 1)
    >>> first, second = replicate(model, ["cpu", "cpu"])
    >>> first is model, first.weight is model.weight
    (False, True)
    """
    shared = {id(t): t.detach() if detach else t
              for t in (*network.parameters(), *network.buffers())}  # fmt: skip
    made = []
    for device in devices:
        if torch.device(device).type != "cpu":
            raise NotImplementedError(f"replicate: devices: got {device}, allowed is the CPU")
        made.append(copy.deepcopy(network, dict(shared)))
    return made
