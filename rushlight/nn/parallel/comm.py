"""torch.nn.parallel.comm: tensors to several devices and back. All devices are the CPU.

>>> import rushlight as torch
>>> [part.tolist() for part in scatter(torch.arange(4), ["cpu", "cpu"], [1, 3])]
[[0], [1, 2, 3]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import rushlight as torch

__all__ = [
    "broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter",
]  # fmt: skip


def _placed(name: str, devices: Iterable[Any]) -> list[Any]:
    """The devices, which must be there."""
    found = [torch.device(device) for device in devices]
    for device in found:
        if device.type != "cpu":
            raise NotImplementedError(f"comm.{name}: device {device}: there is only the CPU")
    return found


def _one_of(name: str, devices: Any, out: Any) -> None:
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and "
            f"out={out} in comm.{name}"
        )


def _filled(out: Sequence[Any], values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(each.copy_(value) for each, value in zip(out, values, strict=True))


def broadcast(tensor: Any, devices: Any = None, *, out: Any = None) -> tuple[Any, ...]:
    """The tensor for each device: the tensor itself first, then copies; or into each of `out`."""
    _one_of("broadcast", devices, out)
    if out is not None:
        return _filled(out, [tensor] * len(out))
    count = len(_placed("broadcast", devices))
    return (tensor, *(tensor.clone() for _ in range(count - 1)))[:count]


def broadcast_coalesced(
    tensors: Sequence[Any], devices: Sequence[Any], buffer_size: int = 10485760
) -> tuple[tuple[Any, ...], ...]:
    """The tensors for each device."""
    count = len(_placed("broadcast_coalesced", devices))
    copies = [tuple(t.clone() for t in tensors) for _ in range(count - 1)]
    return (tuple(tensors), *copies)[:count]


def reduce_add(inputs: Sequence[Any], destination: Any = None) -> Any:
    """The sum of tensors of one shape, on `destination`."""
    _placed("reduce_add", [] if destination is None else [destination])
    if not inputs:
        raise RuntimeError("reduce_add expects a non-empty sequence of inputs")
    total = inputs[0]
    for number, other in enumerate(inputs[1:], 1):
        if other.shape != total.shape:
            raise ValueError(
                f"input {number} has invalid size: got {tuple(other.shape)}, but expected "
                f"{tuple(total.shape)}"
            )
        total = total + other
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Any]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Any, ...]:
    """The sums of the first tensors of all devices, of the second ones, and so on."""
    return tuple(reduce_add(group, destination) for group in zip(*inputs, strict=True))


def scatter(
    tensor: Any, devices: Any = None, chunk_sizes: Sequence[int] | None = None, dim: int = 0,
    streams: Any = None, *, out: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Parts of the tensor along `dim`, one for each device; or into each of `out`."""
    if out is not None:
        if devices is not None or chunk_sizes is not None:
            raise RuntimeError("'devices' and 'chunk_sizes' must not be specified with 'out'")
        return _filled(out, tensor.split([each.shape[dim] for each in out], dim))
    found = _placed("scatter", devices)
    if chunk_sizes is None:
        return tuple(tensor.chunk(len(found), dim))
    if len(chunk_sizes) != len(found) or sum(chunk_sizes) != tensor.shape[dim]:
        raise RuntimeError(
            f"given chunk sizes {list(chunk_sizes)} don't sum up to the tensor's size "
            f"{tensor.shape[dim]} with one for each of {len(found)} devices"
        )
    return tuple(tensor.split(list(chunk_sizes), dim))


def gather(
    tensors: Sequence[Any], dim: int = 0, destination: Any = None, *, out: Any = None
) -> Any:
    """The tensors joined along `dim`, on `destination`, or in `out`."""
    if out is not None and destination is not None:
        raise RuntimeError(f"'destination' must not be specified with 'out', got {destination}")
    _placed("gather", [] if destination is None else [destination])
    joined = torch.cat(list(tensors), dim)
    return joined if out is None else out.copy_(joined)
