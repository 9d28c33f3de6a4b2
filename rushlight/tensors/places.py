"""Tensors on other devices: moved there, or put beside a tensor that is there.

In: tensors. Out: tensors with the same values and history. Always true: a tensor that is where it
is wanted comes back as it is, and a tensor of "meta" is never moved here (it has no values).
"""

from __future__ import annotations

from rushlight import ops
from rushlight.base.devices import CPU, DEVICES, META, device
from rushlight.engine.realize import flush
from rushlight.ir.device import device_of
from rushlight.tensors.apply import apply
from rushlight.tensors.tensor import Tensor


def to_place(tensor: Tensor, place: device) -> Tensor:
    """The tensor on another device, with its history."""
    node = tensor._value()
    if device_of(node) is not None:
        flush((node,))  # it is computed where it is
    source = tensor.device.type
    return apply(ops.to_device, (tensor, source, place.type), label="ToCopyBackward0")


def put_beside(tensor: Tensor, other: Tensor) -> Tensor:
    """The tensor where the other one is."""
    if not DEVICES.used:
        return tensor
    place, here = other.device, tensor.device
    return tensor if place is here or META in (place, here) else to_place(tensor, place)


def index_beside(index: Tensor, other: Tensor) -> Tensor:
    """An index of the CPU goes with tensors of any device; another one stays where it is."""
    return put_beside(index, other) if DEVICES.used and index.device is CPU else index
