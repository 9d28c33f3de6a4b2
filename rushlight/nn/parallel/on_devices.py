"""Copies of modules, and calls of them, one for each device; all devices are the CPU."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.nn.modules.module import Module
from rushlight.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["data_parallel", "parallel_apply", "replicate"]


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


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[dict] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:  # fmt: skip
    """Call each module with its inputs, one after the other.

    >>> [y.tolist() for y in parallel_apply([torch.nn.ReLU()] * 2, [torch.ones(1), -torch.ones(1)])]
    [[1.0], [0.0]]
    """
    if len(modules) != len(inputs):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs "
            f"{len(inputs)}"
        )
    named = kwargs_tup or [{}] * len(modules)
    given = [args if isinstance(args, list | tuple) else (args,) for args in inputs]
    return [module(*args, **kw) for module, args, kw in zip(modules, given, named, strict=True)]


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None,
    output_device: Any = None, dim: int = 0, module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """The module's result for a batch that is cut over the devices, joined again.

    >>> data_parallel(torch.nn.ReLU(), torch.tensor([[1.0], [-1.0]])).tolist()
    [[1.0], [0.0]]
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    devices = list(device_ids or ["cpu"])
    parts, named = scatter_kwargs(args, module_kwargs, devices, dim)
    results = parallel_apply([module] * len(parts), parts, named)
    return results[0] if len(results) == 1 else gather(results, output_device or "cpu", dim)
