"""Tensors of given shapes: zeros, full, arange, eye, ... Their values are graphs, so nothing is
written until a flush. Tensors of given data are made in `from_data`."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.devices import CPU, META, find_device
from rushlight.base.dtypes import BYTE_FLOATS, DType, bool_, float64, int64
from rushlight.engine.origin import STATE as ORIGIN
from rushlight.engine.origin import note
from rushlight.ir.node import Node, const_node, no_value_node, scalar_node
from rushlight.tensors.functions_view import expand, reshape
from rushlight.tensors.layouts import strided
from rushlight.tensors.numbers import Defaults, check_number, complex_number, result_type, wrapped
from rushlight.tensors.out import write_out
from rushlight.tensors.size import is_row_major, parse_size
from rushlight.tensors.tensor import Tensor, new_tensor


def made(
    node: Node, requires_grad: bool = False, device: Any = None, layout: Any = None,
    pin_memory: bool = False, out: Tensor | None = None, memory_format: Any = None, **unknown: Any,
) -> Tensor:  # fmt: skip
    """Finish a creation function: common keyword arguments are checked here."""
    if unknown:
        caller = sys._getframe(1).f_code.co_name
        raise TypeError(f"{caller}() got an unexpected keyword argument '{next(iter(unknown))}'")
    place = find_device(device)
    if place is META:
        node = no_value_node(node.shape, node.dtype)
    elif place is not CPU:
        node = ops.to_device.node(node, "cpu", place.type)
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
    if dtype in BYTE_FLOATS:
        return ops.cast.node(scalar_node(float(value), float64), dtype)
    if dtype.kind == "complex" and isinstance(value, complex | np.complexfloating):
        return complex_number(complex(value), dtype)
    check_number(value, dtype.compute)  # 16-bit floats become infinite, as in PyTorch
    if isinstance(value, complex):
        value = value.real if dtype is not bool_ else bool(value)
    if dtype.is_inexact:
        return scalar_node(float(value), dtype)
    return scalar_node(bool(value) if dtype is bool_ else int(wrapped(value, dtype)), dtype)


def zeros(*size: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    shape = wanted_size(size, options, "zeros")
    return made(filled(shape, const_node(0, dtype or _out_dtype(options))), **options)


def ones(*size: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    shape = wanted_size(size, options)
    return made(filled(shape, const_node(1, dtype or _out_dtype(options))), **options)


def empty(*size: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    """Zeros: memory is never shown uninitialized."""
    shape = wanted_size(size, options)
    return made(filled(shape, const_node(0, dtype or _out_dtype(options))), **options)


def _out_dtype(options: dict) -> DType:
    out = options.get("out")
    return Defaults.dtype if out is None else out._dtype


def wanted_size(size: tuple, options: dict, name: str = "") -> tuple[int, ...]:
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
    return made(filled(wanted_size((size,), options), number_node(fill_value, dtype)), **options)


def empty_strided(size: Any, stride: Any, **options: Any) -> Tensor:
    """A tensor of these sizes and strides; its values are undefined.

    Raises RuntimeError where sizes and strides differ in number, or a stride is negative.
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides "
            f"({len(stride)})"
        )
    if any(step < 0 for step in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported; got {list(stride)}")
    if is_row_major(size, stride):
        return zeros(size, **options)
    needs_grad = options.pop("requires_grad", False)
    extent = 1 + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
    memory = zeros((extent if 0 not in size else 0,), **options)
    return memory.as_strided(size, stride).detach().requires_grad_(needs_grad)


def beside(like: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a creation function, on the device of `like` where they name none."""
    if options.get("device") is None:
        options["device"] = like.device
    return options


def zeros_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    return made(
        filled(input._shape, const_node(0, dtype or input._dtype)), **beside(input, options)
    )


def ones_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    return made(
        filled(input._shape, const_node(1, dtype or input._dtype)), **beside(input, options)
    )


empty_like = zeros_like


def full_like(
    input: Tensor, fill_value: Any, *, dtype: DType | None = None, **options: Any
) -> Tensor:
    return made(
        filled(input._shape, number_node(fill_value, dtype or input._dtype)),
        **beside(input, options),
    )


def new_zeros(self: Tensor, *size: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    return zeros(*size, dtype=dtype or self._dtype, **beside(self, options))


def new_ones(self: Tensor, *size: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    return ones(*size, dtype=dtype or self._dtype, **beside(self, options))


new_empty = new_zeros


def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: DType | None = None, **options: Any
) -> Tensor:
    return full(size, fill_value, dtype=dtype or self._dtype, **beside(self, options))


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
    if any(isinstance(v, float) and not math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is int64:
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise ValueError("step must be nonzero")
    length = math.ceil((end - start) / step)
    if dtype.is_integral:
        start, step = int(start), int(step)
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


def _check_line(name: str, start: Any, end: Any, steps: Any) -> None:
    if not isinstance(steps, int | np.integer | Tensor):
        kinds = ", ".join(type(v).__name__ for v in (start, end, steps))
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({kinds}), but steps "
            "must be int"
        )
    if any(isinstance(v, Tensor) and v.dim() for v in (start, end)):
        raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")


def is_complex_number(value: Any) -> bool:
    return value._dtype.is_complex if isinstance(value, Tensor) else isinstance(value, complex)


def _end_of_line(value: Any, dtype: DType) -> Node:
    if isinstance(value, Tensor):
        return ops.cast.node(value._value(), dtype)
    return number_node(complex(value) if dtype.is_complex else float(value), dtype)


def linspace(
    start: Any, end: Any, steps: int, *, dtype: DType | None = None, **options: Any
) -> Tensor:
    """Counted from the start in the first half and from the end in the second, as PyTorch."""
    _check_line("linspace", start, end, steps)
    if dtype is None and any(is_complex_number(v) for v in (start, end)):
        dtype = Defaults.dtype.to_complex()
    dtype = dtype or _out_dtype(options)
    wide = dtype if dtype.is_inexact else Defaults.dtype
    first, last = (_end_of_line(v, wide) for v in (start, end))
    count = ops.iota.node(int(steps), wide.to_real())
    index = count if wide is count.dtype else ops.cast.node(count, wide)
    if steps <= 1:
        node = ops.add.node(index, first)
    else:
        step = ops.div.node(ops.sub.node(last, first), number_node(steps - 1, wide))
        up = ops.add.node(ops.mul.node(index, step), first)
        back = ops.sub.node(number_node(steps - 1, wide), index)
        down = ops.sub.node(last, ops.mul.node(back, step))
        half = number_node(float(steps // 2), count.dtype)
        node = ops.where.node(ops.lt.node(count, half), up, down)
    return made(node if dtype is wide else ops.cast.node(node, dtype), **options)


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: DType | None = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    line = linspace(start, end, steps, dtype=dtype)
    if line._dtype.is_inexact:
        return made(ops.pow_.node(number_node(base, line._dtype), line._value()), **options)
    # Whole numbers: whole ends, powers in float64, cut at last.
    places = linspace(int(start), int(end), steps, dtype=float64)
    node = ops.pow_.node(number_node(float(base), float64), places._value())
    return made(ops.cast.node(node, line._dtype), **options)


def eye(n: int, m: int | None = None, *, dtype: DType | None = None, **options: Any) -> Tensor:
    m = n if m is None else m
    for name, size in (("n", n), ("m", m)):
        if size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    rows = ops.reshape.node(ops.iota.node(n, int64), (n, 1))
    columns = ops.reshape.node(ops.iota.node(m, int64), (1, m))
    node = ops.cast.node(ops.eq.node(rows, columns), dtype or _out_dtype(options))
    return made(node, **options)


# From Python and numpy data ----------------------------------------------------------------


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
    if not isinstance(d, DType) or d.kind != "float":
        raise TypeError(
            "invalid dtype object: only floating-point types are supported as the default type"
        )
    Defaults.dtype = d
