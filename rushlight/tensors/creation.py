"""Making tensors from numbers, lists and arrays. The values of zeros, arange and the like are
graphs (nothing is written until a flush); the values of lists and arrays are copied at once."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.devices import device as Device
from rushlight.base.devices import require_cpu
from rushlight.base.dtypes import (
    DType,
    bool_,
    complex128,
    convert_array,
    dtype_of_numpy,
    find_dtype,
    float64,
    int64,
)
from rushlight.engine.origin import STATE as ORIGIN
from rushlight.engine.origin import note
from rushlight.ir.node import Node, const_node, scalar_node
from rushlight.tensors.apply import Defaults, apply, complex_number, result_type
from rushlight.tensors.functions_view import expand, permute, reshape
from rushlight.tensors.inplace import write_out
from rushlight.tensors.size import parse_size
from rushlight.tensors.storage import data_node
from rushlight.tensors.tensor import LEGACY, Tensor, make_view, new_tensor


class Layout:
    """torch.strided, the only layout."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class MemoryFormat(Layout):
    """torch.contiguous_format and the others; a tensor's memory is always row-major."""


strided = Layout("strided")
contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")
LEGACY.strided = strided


def made(
    node: Node, requires_grad: bool = False, device: Any = None, layout: Any = None,
    pin_memory: bool = False, out: Tensor | None = None, memory_format: Any = None, **unknown: Any,
) -> Tensor:  # fmt: skip
    """Finish a creation function: common keyword arguments are checked here."""
    if unknown:
        caller = sys._getframe(1).f_code.co_name
        raise TypeError(f"{caller}() got an unexpected keyword argument '{next(iter(unknown))}'")
    require_cpu(device)
    if layout is not None and layout is not strided:
        raise NotImplementedError(f"layout {layout} is not supported: only torch.strided")
    if pin_memory:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if ORIGIN.on:
        note(node)
    result = new_tensor(node)
    if out is not None:
        return write_out(out, result)
    return result.requires_grad_(True) if requires_grad else result


def filled(shape: tuple, value: Node) -> Node:
    return ops.expand.node(value, shape) if shape else value


def number_node(value: Any, dtype: DType) -> Node:
    """A number the user gave: an input of the program."""
    if isinstance(value, Tensor):
        return ops.cast.node(value._value(), dtype)
    if dtype.kind == "complex" and isinstance(value, complex | np.complexfloating):
        return complex_number(complex(value), dtype)
    if isinstance(value, complex):
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    if dtype.is_inexact:
        return scalar_node(float(value), dtype)
    if dtype.kind != "bool" and isinstance(value, int):
        low, high = _range(dtype)
        if not low <= value <= high:
            raise RuntimeError(f"value cannot be converted to type {dtype.name}_t without overflow")
    return scalar_node(bool(value) if dtype is bool_ else int(value), dtype)


def _range(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(dtype.np)
    return int(info.min), int(info.max)


def zeros(*size: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    shape = _size(size, options, "zeros")
    return made(filled(shape, const_node(0, dtype or _out_dtype(options))), **options)


def ones(*size: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    shape = _size(size, options)
    return made(filled(shape, const_node(1, dtype or _out_dtype(options))), **options)


def empty(*size: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    """Zeros: memory is never shown uninitialized."""
    shape = _size(size, options)
    return made(filled(shape, const_node(0, dtype or _out_dtype(options))), **options)


def _out_dtype(options: dict) -> DType:
    out = options.get("out")
    return Defaults.dtype if out is None else out._dtype


def _size(size: tuple, options: dict, name: str = "") -> tuple[int, ...]:
    if not size and "size" in options:
        size = (options.pop("size"),)
    shape = parse_size(size)
    for value in shape:
        if value < 0:
            if name == "zeros":
                raise RuntimeError("zeros: Dimension size must be non-negative.")
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {value}: {list(shape)}"
            )
    return shape


def full(size: Any, fill_value: Any, *, dtype: DType | None = None, **options: Any) -> Tensor:
    if dtype is None:
        dtype = result_type([fill_value])
    return made(filled(_size((size,), options), number_node(fill_value, dtype)), **options)


def empty_strided(size: Any, stride: Any, **options: Any) -> Tensor:
    """Values are undefined; the memory is row-major whatever the strides."""
    return zeros(size, **options)


def zeros_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    return made(filled(input._shape, const_node(0, dtype or input._dtype)), **options)


def ones_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    return made(filled(input._shape, const_node(1, dtype or input._dtype)), **options)


empty_like = zeros_like


def full_like(
    input: Tensor, fill_value: Any, *, dtype: DType | None = None, **options: Any
) -> Tensor:
    return made(filled(input._shape, number_node(fill_value, dtype or input._dtype)), **options)


def new_zeros(self: Tensor, *size: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    return zeros(*size, dtype=dtype or self._dtype, **options)


def new_ones(self: Tensor, *size: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    return ones(*size, dtype=dtype or self._dtype, **options)


new_empty = new_zeros


def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: DType | None = None, **options: Any
) -> Tensor:
    return full(size, fill_value, dtype=dtype or self._dtype, **options)


def new_tensor_method(
    self: Tensor, data: Any, *, dtype: DType | None = None, **options: Any
) -> Tensor:
    return tensor(data, dtype=dtype or self._dtype, **options)


def arange(*args: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    """arange(end), arange(start, end), arange(start, end, step)."""
    names = ("end",) if len(args) == 1 else ("start", "end", "step")
    given = {"start": 0, "step": 1, **dict(zip(names, args, strict=False))}
    given.update({n: options.pop(n) for n in ("start", "end", "step") if n in options})
    start, end, step = (
        v.item() if isinstance(v, Tensor) else v
        for v in (given["start"], given["end"], given["step"])
    )
    if dtype is None:
        whole = all(isinstance(v, int | np.integer) for v in (start, end, step))
        dtype = int64 if whole else _out_dtype(options)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype.is_integral:
        start, step = int(start), int(step)
    length = math.ceil((end - start) / step)
    # Floats in float64, rounded once, as PyTorch's accumulation type.
    wide = float64 if dtype.is_inexact else int64
    node = ops.iota.node(length, wide)
    if step != 1:
        node = ops.mul.node(node, number_node(step, wide))
    if start != 0:
        node = ops.add.node(node, number_node(start, wide))
    return made(node if dtype is wide else ops.cast.node(node, dtype), **options)


def range_(start: Any = 0, end: Any = None, step: Any = 1, **options: Any) -> Tensor:
    """torch.range: the end is included."""
    dtype = options.pop("dtype", None) or Defaults.dtype
    return arange(start, end + step / 2, step, dtype=dtype, **options)


def linspace(
    start: Any, end: Any, steps: int, *, dtype: DType | None = None, **options: Any
) -> Tensor:
    """Counted from the start in the first half and from the end in the second, as PyTorch."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    numbers = [v.item() if isinstance(v, Tensor) else v for v in (start, end)]
    if dtype is None and any(isinstance(v, complex) for v in numbers):
        dtype = Defaults.dtype.to_complex()
    dtype = dtype or _out_dtype(options)
    wide = dtype if dtype.is_inexact else Defaults.dtype
    first, last = (complex(v) if wide.is_complex else float(v) for v in numbers)
    count = ops.iota.node(int(steps), wide.to_real())
    index = count if wide is count.dtype else ops.cast.node(count, wide)
    if steps <= 1:
        node = ops.add.node(index, number_node(first, wide))
    else:
        step = number_node(
            ((np.asarray(last, wide.np) - np.asarray(first, wide.np)) / (steps - 1)).item(), wide
        )
        up = ops.add.node(ops.mul.node(index, step), number_node(first, wide))
        back = ops.sub.node(const_node(steps - 1, wide), index)
        down = ops.sub.node(number_node(last, wide), ops.mul.node(back, step))
        node = ops.where.node(ops.lt.node(count, float(steps // 2)), up, down)
    return made(node if dtype is wide else ops.cast.node(node, dtype), **options)


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: DType | None = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    line = linspace(start, end, steps, dtype=dtype)
    node = ops.pow_.node(number_node(base, line._dtype), line._value())
    return made(node, **options)


def eye(n: int, m: int | None = None, *, dtype: DType | None = None, **options: Any) -> Tensor:
    m = n if m is None else m
    if n < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {n}")
    rows = ops.reshape.node(ops.iota.node(n, int64), (n, 1))
    columns = ops.reshape.node(ops.iota.node(m, int64), (1, m))
    node = ops.cast.node(ops.eq.node(rows, columns), dtype or _out_dtype(options))
    return made(node, **options)


# From Python and numpy data ----------------------------------------------------------------


def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A copy of the data, without history."""
    require_cpu(device)
    result = tensor_of(data, dtype)
    if requires_grad and not result._dtype.is_inexact:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return result.requires_grad_(True) if requires_grad else result


def tensor_of(data: Any, dtype: DType | None = None) -> Tensor:
    if isinstance(data, Tensor):
        node = data._value()
        if dtype is not None and dtype is not node.dtype:
            node = ops.cast.node(node, dtype)
        return new_tensor(node)
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        found = dtype_of_numpy(array.dtype)
        return new_tensor(data_node(convert_array(array, dtype or found), dtype or found))
    if hasattr(data, "__array_interface__") or hasattr(data, "__array__"):
        return tensor_of(np.asarray(data), dtype)
    array, found = _array_of(data)
    if dtype is None:
        dtype = found
    if dtype.is_integral and dtype is not bool_ and array.dtype.kind in "iu":
        low, high = _range(dtype)
        if array.size and (array.min() < low or array.max() > high):
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    if array.dtype.kind == "c" and not dtype.is_complex:
        raise TypeError(f"can't convert complex to {dtype.kind}")
    return new_tensor(data_node(convert_array(array, dtype), dtype))


PYTHON_NUMBERS = {float: float64, int: int64, bool: bool_, complex: complex128}


def _array_of(data: Any) -> tuple[np.ndarray, DType]:
    """Nested sequences and numbers as an array, with PyTorch's dtype for them."""
    if data.__class__ in PYTHON_NUMBERS:
        wide = PYTHON_NUMBERS[data.__class__]
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
    if data.__class__ in (float, int, bool, complex) or isinstance(data, str | bytes):
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
    require_cpu(device)
    if isinstance(data, Tensor):
        return data if dtype is None or dtype is data._dtype else apply(ops.cast, (data, dtype))
    if isinstance(data, np.ndarray):
        shared = from_numpy(data)
        return (
            shared if dtype is None or dtype is shared._dtype else apply(ops.cast, (shared, dtype))
        )
    return tensor_of(data, dtype)


def asarray(
    obj: Any, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    if copy:
        found = tensor_of(obj, dtype)
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


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    swap = indexing == "xy" and len(tensors) > 1
    if swap:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    shape = tuple(t.numel() for t in tensors)
    grids = []
    for i, t in enumerate(tensors):
        own = tuple(shape[i] if d == i else 1 for d in range(len(shape)))
        grids.append(expand(reshape(t, own), shape))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def default_dtype() -> DType:
    return Defaults.dtype


def set_default_dtype(d: DType) -> None:
    if d.kind != "float":
        raise TypeError("only floating-point types are supported as the default type")
    Defaults.dtype = d


def named_dtype(name: str) -> DType:
    return find_dtype(name)


LEGACY.build = legacy_build
LEGACY.apply = apply
DEVICE = Device
