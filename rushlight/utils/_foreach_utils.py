"""torch.utils._foreach_utils: lists of tensors by device and dtype, as optimizers sort them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as torch

__all__ = [
    "_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices",
    "_group_tensors_by_device_and_dtype", "_has_foreach_support",
]  # fmt: skip

Lists = list[list[torch.Tensor | None]]
Place = tuple[Any, Any]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[torch.Tensor | None]], with_indices: bool = False
) -> dict[Place, tuple[Lists, list[int]]]:
    """(device, dtype) of the first list's tensors -> the lists' entries there, and their places."""
    found: dict[Place, tuple[Lists, list[int]]] = {}
    for place, entries in enumerate(zip(*tensorlistlist, strict=True)):
        first = entries[0]
        if first is None:
            raise RuntimeError("The tensors of the first list must not be None.")
        lists, indices = found.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for own, entry in zip(lists, entries, strict=True):
            own.append(entry)
        if with_indices:
            indices.append(place)
    return found


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Where one call for a list of tensors is faster than many: here all updates of a step are
    compiled as one program anyway, so nowhere."""
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    """Where `fused=True` is taken."""
    return ["cpu"]


def _device_has_foreach_support(device: Any) -> bool:
    """Is it the CPU? (There the functions of lists work; they are not asked for by default.)"""
    return device.type == "cpu"


def _has_foreach_support(tensors: Sequence[Any], device: Any) -> bool:
    """Are they plain tensors of such a device?"""
    return _device_has_foreach_support(device) and all(
        tensor is None or type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors
    )
