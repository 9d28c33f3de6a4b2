"""Values on the device of a tensor: for what writes into it, and for indices that pick from it.

In: a tensor and a value. Out: the value where the tensor is, with its history. Always true: a
tensor stays on its device, whatever is written into it, and its gradient is there. Nothing is
looked at before a second device is used.
"""

from __future__ import annotations

from rushlight import ops
from rushlight.base.devices import CPU, DEVICES, META
from rushlight.base.devices import device as Device
from rushlight.engine.realize import flush
from rushlight.ir.device import device_of
from rushlight.tensors.apply import apply
from rushlight.tensors.tensor import Tensor, new_tensor


def to_place(tensor: Tensor, place: Device) -> Tensor:
    """The tensor on another device, with its history."""
    node = tensor._value()
    if device_of(node) is not None:
        flush((node,))  # it is computed where it is
    source = tensor.device.type
    return apply(ops.to_device, (tensor, source, place.type), label="ToCopyBackward0")


def brought(value: Tensor, tensor: Tensor) -> Tensor:
    """A value that is copied into a tensor, from whichever device."""
    if not DEVICES.used or value.is_meta or tensor.is_meta or value.device is tensor.device:
        return value
    return to_place(value, tensor.device)


def result_for(tensor: Tensor, result: Tensor) -> Tensor:
    """What an op made of a tensor, to be stored there: what was only drawn or filled is computed
    on any device, all else must have been computed on that of the tensor."""
    if tensor.is_meta or result.is_sparse:
        return result
    place, there = tensor.device, device_of(result._value())
    if there is not None and there != place.type:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{place} and {there}!"
        )
    return result if there is not None or place is CPU else to_place(result, place)


def index_for(tensor: Tensor, index: Tensor) -> Tensor:
    """An index of the CPU goes with a tensor of any device."""
    if not DEVICES.used or tensor.device is META:
        return index
    node = index._value()
    place, there = device_of(tensor._value()), device_of(node)
    if place is None or there is None or place == there:
        return index
    if there != CPU.type:
        raise RuntimeError(
            f"indices should be either on cpu or on the same device as the indexed tensor ({place})"
        )
    return new_tensor(ops.to_device.node(node, there, place))
