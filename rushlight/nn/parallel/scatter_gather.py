"""torch.nn.parallel.scatter_gather: arguments in parts, one for each device, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as torch

__all__ = ["gather", "is_namedtuple", "_is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    """Is it a tuple with field names?"""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


_is_namedtuple = is_namedtuple


def _like(kind: Any, values: Any) -> Any:
    return type(kind)(*values) if is_namedtuple(kind) else type(kind)(values)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """One part for each device: tensors are cut along `dim`, containers entered, the rest shared.

    >>> import rushlight as torch
    >>> [p.tolist() for p in scatter(torch.arange(4), ["cpu", "cpu"])]
    [[0, 1], [2, 3]]
    """
    devices = list(target_gpus)
    if isinstance(inputs, torch.Tensor):
        parts = inputs.chunk(len(devices), dim)
        return tuple(p.to(device) for p, device in zip(parts, devices, strict=False))
    if isinstance(inputs, (tuple, list)) and len(inputs) > 0:
        rows = zip(*(scatter(value, devices, dim) for value in inputs), strict=False)
        return [_like(inputs, row) for row in rows]
    if isinstance(inputs, dict) and len(inputs) > 0:
        rows = zip(*(scatter(item, devices, dim) for item in inputs.items()), strict=False)
        return [type(inputs)(row) for row in rows]
    return [inputs for _ in devices]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Arguments and keyword arguments in parts; as many of one as of the other."""
    args = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    args += [() for _ in range(len(named) - len(args))]
    named += [{} for _ in range(len(args) - len(named))]
    return tuple(args), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """The parts as one, on one device: tensors joined along `dim`, containers entered."""
    first = outputs[0]
    if isinstance(first, torch.Tensor):
        whole = [part.unsqueeze(0) if part.dim() == 0 else part for part in outputs]
        device = "cpu" if target_device in (-1, None) else target_device
        return torch.cat([part.to(device) for part in whole], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(first) != len(part) for part in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((k, gather([p[k] for p in outputs], target_device, dim)) for k in first)
    return _like(first, [gather(list(p), target_device, dim) for p in zip(*outputs, strict=True)])
