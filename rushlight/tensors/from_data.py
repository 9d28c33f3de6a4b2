"""Tensors from Python numbers, nested lists, numpy arrays and buffers.

The values of lists are copied at once; `from_numpy` and the like share the memory they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.devices import CPU, DEVICES, META, current_device, find_device
from rushlight.base.dtypes import (
    PYTHON_TYPES,
    DType,
    bool_,
    convert_array,
    dtype_of_numpy,
    float64,
    int64,
)
from rushlight.ir.node import buffer_node, const_node, no_value_node
from rushlight.runtime.buffer import allocate
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import beside, zeros
from rushlight.tensors.functions_view import permute
from rushlight.tensors.interop import check_export
from rushlight.tensors.layouts import strided
from rushlight.tensors.numbers import Defaults, check_number
from rushlight.tensors.placing import to_place
from rushlight.tensors.storage import data_node
from rushlight.tensors.tensor import LEGACY, Tensor, make_view, new_tensor


def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A copy of the data, without history; that of a tensor is where the tensor is."""
    result = placed(tensor_of(data, dtype), _device_of_copy(data, device))
    if requires_grad and not result._dtype.is_inexact:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return result.requires_grad_(True) if requires_grad else result


def placed(made: Tensor, device: Any) -> Tensor:
    """The tensor on the device, or what stands for it on "meta"."""
    place = find_device(device)
    if place is META:
        return new_tensor(no_value_node(made._shape, made._dtype))
    if DEVICES.used and made.device is not place:
        return to_place(made, place)
    node = made._storage.node
    if node.leaf == "buffer" and node.buffer.device is None:
        node.buffer.device = place.type
    return made


def _device_of_copy(data: Any, device: Any) -> Any:
    """The given device; else that of a tensor, where no other one is the current."""
    if device is None and isinstance(data, Tensor) and current_device() is CPU:
        return data.device
    return device


def tensor_of(data: Any, dtype: DType | None = None) -> Tensor:
    """A copy of the data, which goes with tensors of any device until it is `placed`."""
    if isinstance(data, Tensor):
        node = data._value()
        if dtype is not None and dtype is not node.dtype:
            node = ops.cast.node(node, dtype)
        return new_tensor(node)
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        found = dtype_of_numpy(array.dtype)
        return _copy_of(array, dtype or found)
    if hasattr(data, "__array_interface__") or hasattr(data, "__array__"):
        return tensor_of(np.asarray(data), dtype)
    if data.__class__ is float and (dtype is None or dtype.kind == "float"):
        return _of_float(data, dtype or Defaults.dtype)
    array, found = _array_of(data)
    if dtype is None:
        dtype = found
    if dtype.is_integral and dtype is not bool_ and array.dtype.kind in "iu":
        if array.size:
            check_number(int(array.min()), dtype, dtype.name)
            check_number(int(array.max()), dtype, dtype.name)
    if array.dtype.kind == "c" and not dtype.is_complex:
        raise TypeError(f"can't convert complex to {dtype.kind}")
    return _copy_of(array, dtype)


def _copy_of(array: np.ndarray, dtype: DType) -> Tensor:
    node = data_node(convert_array(array, dtype), dtype)
    node.buffer.device = None
    return new_tensor(node)


def _of_float(value: float, dtype: DType) -> Tensor:
    buffer = allocate(dtype.itemsize)
    if dtype.itemsize < 4 or not buffer.put_number(dtype, value):
        buffer.view(dtype, ())[...] = convert_array(np.asarray(value), dtype)
    buffer.device = None
    return new_tensor(buffer_node(buffer, (), dtype))


def _array_of(data: Any) -> tuple[np.ndarray, DType]:
    """Nested sequences and numbers as an array, with PyTorch's dtype for them."""
    if data.__class__ in PYTHON_TYPES:
        wide = PYTHON_TYPES[data.__class__]
        kinds = {float: Defaults.dtype, complex: Defaults.dtype.to_complex()}
        return np.asarray(data, wide.np), kinds.get(data.__class__, wide)
    if isinstance(data, str) or not hasattr(data, "__len__"):
        if hasattr(data, "__index__"):
            return np.asarray(data.__index__()), int64
        if hasattr(data, "__float__"):
            return np.asarray(float(data)), Defaults.dtype
        if isinstance(data, str):
            raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    flat: list[Any] = []
    shape = _flatten(data, 0, flat, [])
    if not flat:
        return np.zeros(shape, np.float32), Defaults.dtype
    kinds = {type(item) for item in flat}
    for kind in kinds:
        if issubclass(kind, str) or kind is type(None):
            if issubclass(kind, str):
                raise TypeError(f"new(): invalid data type '{kind.__name__}'")
            raise RuntimeError(f"Could not infer dtype of {kind.__name__}")
    try:
        array = np.array(flat)
    except OverflowError:
        array = np.array(flat, object)
    if array.dtype == object or (array.dtype.kind == "u" and array.dtype.itemsize == 8):
        raise ValueError("Overflow when unpacking long long")
    dtype = _list_dtype(kinds, array)
    return array.reshape(shape), dtype


def _list_dtype(kinds: set, array: np.ndarray) -> DType:
    if array.dtype.kind in "fc":
        exact = [k for k in kinds if issubclass(k, np.generic) and not issubclass(k, float)]
        if exact and not any(issubclass(k, float | complex) for k in kinds):
            return dtype_of_numpy(array.dtype)
        return Defaults.dtype if array.dtype.kind == "f" else Defaults.dtype.to_complex()
    if array.dtype.kind in "iu":
        return int64
    return dtype_of_numpy(array.dtype)


def _flatten(data: Any, depth: int, flat: list, shape: list) -> tuple[int, ...]:
    """Append the numbers in order; the shape is read along first elements and then checked."""
    if isinstance(data, Tensor):
        if data.dim():
            for item in data:
                _check_len(data._shape[0], depth, shape)
                _flatten(item, depth + 1, flat, shape)
            return tuple(shape)
        flat.append(data.item() if data._dtype is not float64 else np.float64(data.item()))
        return tuple(shape)
    if data.__class__ in PYTHON_TYPES or isinstance(data, str | bytes):
        if depth < len(shape):
            raise TypeError("expected a sequence at every position of the same depth")
        flat.append(data)
        return tuple(shape)
    if isinstance(data, np.ndarray) and data.ndim:
        data = data.tolist() if data.dtype == np.float64 else list(data)
    if not hasattr(data, "__len__") or isinstance(data, np.generic):
        flat.append(data)
        return tuple(shape)
    _check_len(len(data), depth, shape)
    for item in data:
        if depth + 1 < len(shape) and not hasattr(item, "__len__"):
            raise TypeError("not a sequence")
        _flatten(item, depth + 1, flat, shape)
    return tuple(shape)


def _check_len(length: int, depth: int, shape: list) -> None:
    if depth == len(shape):
        shape.append(length)
    elif shape[depth] != length:
        raise ValueError(
            f"expected sequence of length {shape[depth]} at dim {depth} (got {length})"
        )


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The tensor itself or shared memory where possible, otherwise a copy."""
    if device is not None or current_device() is not CPU:
        return moved(as_tensor_here(data, dtype), device, data)
    return as_tensor_here(data, dtype)


def moved(found: Tensor, device: Any, data: Any) -> Tensor:
    """What `as_tensor` found, on the device; a tensor stays where it is when none is given."""
    if device is None and isinstance(data, Tensor):
        return found
    if find_device(device) is CPU and found.is_meta:
        found.numpy()  # raises
    return found if found.device is find_device(device) else placed(found, device)


def as_tensor_here(data: Any, dtype: DType | None) -> Tensor:
    """`as_tensor` without a device."""
    if isinstance(data, Tensor):
        return data if dtype is None or dtype is data._dtype else apply(ops.cast, (data, dtype))
    if isinstance(data, np.ndarray):
        shared = from_numpy(data)
        return (
            shared if dtype is None or dtype is shared._dtype else apply(ops.cast, (shared, dtype))
        )
    return placed(tensor_of(data, dtype), CPU)


def asarray(
    obj: Any, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    if copy:
        found = placed(tensor_of(obj, dtype), _device_of_copy(obj, device))
    elif hasattr(obj, "_as_tensor"):  # a storage
        found = as_tensor(obj._as_tensor(), dtype)
    elif hasattr(obj, "__dlpack__") and not isinstance(obj, Tensor | np.ndarray):
        found = as_tensor(from_dlpack(obj), dtype)
    else:
        found = as_tensor(obj, dtype, device)
    if copy is False and not isinstance(obj, Tensor | np.ndarray):
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    return found.requires_grad_(True) if requires_grad else found


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor over the array's memory: each side sees what the other writes."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtype = dtype_of_numpy(ndarray.dtype)
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array  with array.copy().) "
        )
    return over_array(ndarray, dtype)


def over_array(array: np.ndarray, dtype: DType) -> Tensor:
    """Foreign memory; an array that is not row-major is a strided view of its base."""
    if array.flags.c_contiguous:
        result = new_tensor(const_node(0, dtype))
        result._shape = tuple(array.shape)
        result._storage.adopt(array, dtype, result._shape)
        return result
    order = tuple(sorted(range(array.ndim), key=lambda d: -array.strides[d]))
    turned = array.transpose(order)
    if turned.flags.c_contiguous:
        back = tuple(sorted(range(len(order)), key=order.__getitem__))
        return permute(over_array(turned, dtype), back).detach()
    return _sliced_array(array, dtype)


def _sliced_array(array: np.ndarray, dtype: DType) -> Tensor:
    """A strided view of the memory from the first element to the last."""
    if any(s % array.itemsize for s in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy "
            "array to reallocate the memory."
        )
    shape = tuple(array.shape)
    strides = tuple(s // array.itemsize for s in array.strides)
    length = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    flat = np.lib.stride_tricks.as_strided(array, (length,), (array.itemsize,))
    steps = ((ops.as_strided, (shape, strides, 0), shape, None),)
    base = over_array(flat, dtype)
    return make_view(base, steps, shape, strides, 0, "AsStridedBackward0").detach()


def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A tensor over the memory of an object with the buffer protocol."""
    array = np.frombuffer(buffer, dtype.np, count, offset)
    result = over_array(array, dtype)
    return result.requires_grad_(True) if requires_grad else result


def from_dlpack(ext_tensor: Any, **options: Any) -> Tensor:
    """A tensor over the memory behind a DLPack capsule."""
    if isinstance(ext_tensor, Tensor):
        check_export(ext_tensor)
        return ext_tensor.detach()
    array = np.from_dlpack(ext_tensor)
    return over_array(array, dtype_of_numpy(array.dtype))


def legacy_build(cls: type, args: tuple) -> Tensor:
    """torch.Tensor(2, 3), torch.Tensor([1.0]), torch.Tensor()."""
    if not args:
        return zeros(0)
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].detach()
    if all(isinstance(a, int) for a in args):
        return zeros(*args)
    if len(args) == 1 and isinstance(args[0], Sequence | np.ndarray):
        if args[0].__class__.__name__ == "Size":
            return zeros(args[0])
        return tensor_of(args[0], Defaults.dtype)
    raise TypeError(f"new(): invalid combination of arguments {args!r}")


def new_tensor_method(
    self: Tensor, data: Any, *, dtype: DType | None = None, **options: Any
) -> Tensor:
    return tensor(data, dtype=dtype or self._dtype, **beside(self, options))


LEGACY.build = legacy_build
LEGACY.apply = apply
LEGACY.strided = strided
