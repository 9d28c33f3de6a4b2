"""Dtype and device moves, copies, pickling."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.devices import ACCELERATORS, CPU, DEVICES, KNOWN, META, find_device
from rushlight.base.devices import device as Device
from rushlight.base.dtypes import (
    PYTHON_TYPES,
    DType,
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    find_dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)  # fmt: skip
from rushlight.ir.node import const_node, no_value_node
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import number_node
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_view import expand
from rushlight.tensors.inplace import assign, check_inplace, overwrite
from rushlight.tensors.interop import look
from rushlight.tensors.placing import brought, to_place
from rushlight.tensors.size import parse_size
from rushlight.tensors.storage import data_node
from rushlight.tensors.tensor import Tensor, new_tensor
from rushlight.tensors.type_names import COMPLEX_TYPE_NAMES, TYPE_NAMES, cpp_name


def cast(tensor: Tensor, dtype: DType) -> Tensor:
    if tensor._dtype is dtype:
        return tensor
    if tensor._dtype.is_complex and not dtype.is_complex and dtype is not bool_:
        warnings.warn(
            "Casting complex values to real discards the imaginary part", UserWarning, stacklevel=3
        )
    return apply(ops.cast, (tensor, dtype), label="ToCopyBackward0")


def to(
    self: Tensor, *args: Any, dtype: DType | None = None, device: Any = None,
    non_blocking: bool = False, copy: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """to(dtype), to(device), to(device, dtype), to(other); then non_blocking and copy."""
    flags = [arg for arg in args if isinstance(arg, bool)]
    copy = flags[1] if len(flags) > 1 else copy
    for arg in args:
        if isinstance(arg, DType):
            dtype = arg
        elif isinstance(arg, Tensor):
            dtype, device = arg._dtype, arg.device
        elif isinstance(arg, str | Device) or (isinstance(arg, int) and not isinstance(arg, bool)):
            device = arg
        elif arg is None or isinstance(arg, bool):
            continue
        elif arg in PYTHON_TYPES:
            dtype = PYTHON_TYPES[arg]
        else:
            raise TypeError(f"to() received an invalid combination of arguments - got ({arg!r})")
    place = self.device if device is None else find_device(device)
    if dtype is not None and not isinstance(dtype, DType):
        raise TypeError(f"to(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    if place is not self.device:
        return move(self, place, dtype or self._dtype)
    if dtype is None or dtype is self._dtype:
        return clone(self) if copy or _asks_for_channels_last(self, memory_format) else self
    return cast(self, dtype)


def _asks_for_channels_last(tensor: Tensor, memory_format: Any) -> bool:
    """The order in memory stays, but what PyTorch copies for it shares no memory here either."""
    is_other = str(memory_format) in ("torch.channels_last", "torch.channels_last_3d")
    return is_other and not tensor.is_contiguous(memory_format)


def move(tensor: Tensor, place: Device, dtype: DType) -> Tensor:
    """To another device; "meta" keeps the shape alone, and the way back is an error."""
    if place is not META and tensor.is_meta:
        look(tensor)  # raises
    if place is not META:
        return cast(to_place(tensor, place), dtype)
    empty = new_tensor(no_value_node(tensor._shape, dtype))
    always = new_tensor(const_node(True, bool_))
    return apply(ops.where, (always, empty, cast(tensor, dtype)), label="ToCopyBackward0")


def _caster(dtype: DType) -> Any:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        return cast(self, dtype)

    return method


CASTS = {
    "float": float32, "double": float64, "half": float16, "bfloat16": bfloat16, "long": int64,
    "int": int32, "short": int16, "char": int8, "byte": uint8, "bool": bool_, "cfloat": complex64,
    "cdouble": complex128, "chalf": complex32,
}  # fmt: skip


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor type, or the tensor in another dtype."""
    if dtype is None:
        names = {d: n for n, d in (TYPE_NAMES | COMPLEX_TYPE_NAMES).items()}
        place = self.device.type
        space = "torch" if place == "cpu" else f"torch.{place}"
        return f"{space}.{names[self._dtype]}"
    if isinstance(dtype, str):
        space, _, name = dtype.rpartition(".")
        first, _, place = space.partition(".")
        if first != "torch" or name not in TYPE_NAMES | COMPLEX_TYPE_NAMES:
            raise ValueError(f"invalid type: '{dtype}'")
        if place and place not in KNOWN:
            raise ValueError(f"invalid type: '{dtype}'")
        return to(self, place or "cpu", (TYPE_NAMES | COMPLEX_TYPE_NAMES)[name])
    elif isinstance(dtype, type):
        if dtype.__name__ not in TYPE_NAMES:
            raise ValueError(f"invalid type: '{dtype.__name__}'")
        dtype = TYPE_NAMES[dtype.__name__]
    return cast(self, dtype)


def type_as(self: Tensor, other: Tensor) -> Tensor:
    return to(self, other.device, other._dtype)


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    return to(self, "cpu")


def _mover(kind: str) -> Any:
    def method(
        self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> Tensor:
        """On a GPU; `device`: its number or name."""
        if device is None or isinstance(device, int):
            return to(self, Device(kind, device))
        place = Device(device)
        if place.type != kind:
            raise RuntimeError(f"Invalid device, must be {kind} device")
        return to(self, place)

    method.__name__ = method.__qualname__ = kind
    return method


cuda, xpu = _mover("cuda"), _mover("xpu")


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with history. The value is shared until one side is written."""
    return apply(ops.reshape, (input, input._shape), label="CloneBackward0")


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    check_inplace(self)
    if not isinstance(src, Tensor):
        src = tensor_of(src)
    src = brought(src, self)
    value = src
    if value._dtype is not self._dtype:
        value = apply(ops.cast, (value, self._dtype), label="CopyBackwards")
    if value._shape != self._shape:
        value = expand(value, self._shape)
    if value is src and value.requires_grad:  # the history of the copy is not that of src
        value = apply(ops.reshape, (value, value._shape), label="CopyBackwards")
    return overwrite(self, value)


def fill_(self: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        if value.dim():
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} "
                "dimensions."
            )
        return copy_(self, value)
    check_inplace(self)
    return assign(self, new_tensor(_filled(self, value)))


def _filled(tensor: Tensor, value: Any) -> Any:
    node = number_node(value, tensor._dtype)
    return ops.expand.node(node, tensor._shape) if tensor._shape else node


def zero_(self: Tensor) -> Tensor:
    check_inplace(self)
    node = const_node(0, self._dtype)
    return assign(self, new_tensor(ops.expand.node(node, self._shape) if self._shape else node))


def deepcopy(self: Tensor, memo: dict) -> Tensor:
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) in memo:
        return memo[id(self)]
    made = new_tensor(self._value())
    if type(self) is not Tensor:
        made = Tensor._make_subclass(type(self), made)
    if self.requires_grad:
        made.requires_grad_(True)
    memo[id(self)] = made
    if self.grad is not None:
        made.grad = deepcopy(self.grad, memo)
    made.__dict__ = _copied_dict(self.__dict__, memo)
    return made


def _copied_dict(values: dict, memo: dict) -> dict:
    return {key: copy.deepcopy(value, memo) for key, value in values.items()}


def reduce_ex(self: Tensor, protocol: int) -> tuple:
    """Pickle by value: bytes (which protocol 5 may keep outside), dtype and shape."""
    if not self.is_leaf and self.requires_grad:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment."
        )
    state = (_picklable(self, protocol), self._dtype.name, tuple(self._shape), self.requires_grad)
    where = () if self.device is CPU else (str(self.device),)
    return (rebuild, (type(self), *state, dict(self.__dict__), *where))


def _picklable(tensor: Tensor, protocol: int) -> Any:
    """Its bytes; None of a tensor without values."""
    if tensor.is_meta:
        return None
    values = np.ascontiguousarray(look(tensor))
    if protocol >= 5:
        return pickle.PickleBuffer(values.reshape(-1).view(np.uint8))
    return values.tobytes()


def rebuild(
    cls: type, data: Any, dtype: str, shape: tuple, requires_grad: bool, extra: dict,
    place: str = "cpu",
) -> Tensor:  # fmt: skip
    """A tensor from its pickled parts, on the device on which it was."""
    kind = find_dtype(dtype)
    if data is None:
        made = new_tensor(no_value_node(shape, kind))
    else:
        made = new_tensor(data_node(np.frombuffer(data, kind.np).reshape(shape), kind))
    if find_device(place) not in (CPU, META):
        made = to_place(made, find_device(place)).detach()
    if cls is not Tensor:
        made = Tensor._make_subclass(cls, made, requires_grad)
    elif requires_grad:
        made.requires_grad_(True)
    made.__dict__.update(extra)
    return made


def set_(self: Tensor, source: Tensor | None = None) -> Tensor:
    """Take over another tensor's memory."""
    if source is None:
        source = new_tensor(ops.expand.node(const_node(0, self._dtype), (0,)))
    if source._dtype is not self._dtype:
        raise RuntimeError(
            f"Could not set tensor of type {cpp_name(source._dtype)} to a tensor of type "
            f"{cpp_name(self._dtype)}"
        )
    version = self._counter.version
    self.data = source
    self._counter.version = version + 1
    return self


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Another shape in place: what fits is kept, the rest is 0."""
    shape = parse_size(sizes)
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if shape == self._shape:
        return self
    count, have = math.prod(shape), self.numel()
    self._storage.check_room(self.storage_offset() + count)
    flat = ops.reshape.node(self._value(), (have,))
    if count <= have:
        node = ops.slice_.node(flat, (0,), (count,), (1,))
    else:
        node = ops.pad.node(flat, const_node(0, self._dtype), (0,), (count - have,), (0,))
    version = self._counter.version
    self.data = new_tensor(ops.reshape.node(node, shape))
    self._counter.version = version + 1
    return self


def share_memory_(self: Tensor) -> Tensor:
    return self


def is_shared(self: Tensor) -> bool:
    return False


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Itself: all memory is the host's, from which backends copy as it is."""
    if all(map(DEVICES.why_missing, ACCELERATORS)):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return self


def is_pinned(self: Tensor, device: Any = None) -> bool:
    return False


METHODS = {
    "to": to, "type": type_, "type_as": type_as, "cpu": cpu, "cuda": cuda,
    "xpu": xpu, "clone": clone,
    "copy_": copy_, "fill_": fill_, "zero_": zero_, "__deepcopy__": deepcopy,
    "__reduce_ex__": reduce_ex, "resize_": resize_, "share_memory_": share_memory_,
    "is_shared": is_shared, "pin_memory": pin_memory, "is_pinned": is_pinned,
    **{name: _caster(dtype) for name, dtype in CASTS.items()},
}  # fmt: skip
