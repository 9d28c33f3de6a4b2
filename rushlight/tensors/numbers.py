"""Python numbers beside tensors: their nodes, and the dtype in which operands meet.

In: operands of a call (tensors, numbers, nodes). Out: nodes of the numbers, and the common dtype by
PyTorch's rules of promotion. A complex number is two real inputs of the program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from rushlight import ops
from rushlight.base.dtypes import (
    DType,
    bool_,
    complex128,
    float32,
    float64,
    int64,
    promote_types,
)
from rushlight.ir.node import Node, scalar_node
from rushlight.ir.opdef import OpDef
from rushlight.tensors.tensor import Tensor
from rushlight.tensors.tracked import Tracked
from rushlight.tensors.type_names import number_name

NUMBERS = frozenset((int, float, bool, complex))
# Kinds of dtypes that have gradients.
INEXACT = frozenset(("float", "complex"))
# A dtype of a higher category wins, whatever its width.
CATEGORY = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


class Defaults:
    """The dtype of Python floats (torch.set_default_dtype)."""

    dtype: DType = float32


def value_of(arg: Any) -> Node:
    if isinstance(arg, Tensor):
        return arg._value()
    if isinstance(arg, Node):
        return arg
    if arg.__class__ is Tracked:
        return scalar_node(arg.value, float64, arg)
    if isinstance(arg, complex):
        return complex_number(arg, complex128)
    kind = bool_ if arg.__class__ is bool else int64 if isinstance(arg, int) else float64
    return scalar_node(arg, kind)


def complex_number(value: complex, dtype: DType) -> Node:
    """A complex number the user gave: two inputs of the program."""
    part = dtype.to_real()
    return ops.complex_.node(scalar_node(value.real, part), scalar_node(value.imag, part))


def number_of(arg: Any, dtype: DType | None, operands: Sequence[Any]) -> Node:
    if isinstance(arg, Node):
        return arg
    if dtype is None:
        dtype = next(t._dtype for t in operands if isinstance(t, Tensor))
    if arg.__class__ is Tracked and dtype.kind in INEXACT:
        return scalar_node(arg.value, dtype, arg)
    if arg.__class__ not in NUMBERS:
        arg = python_number(arg)
    if dtype.kind == "complex":
        if isinstance(arg, complex):
            return complex_number(arg, dtype)
        arg = float(arg)
    elif isinstance(arg, complex):
        _does_not_fit(number_name(dtype))
    elif dtype.kind == "float":
        arg = float(arg)
    elif dtype.kind == "bool":
        arg = bool(arg)
    else:
        arg = int(arg)
    return scalar_node(arg, dtype)


def check_number(value: Any, dtype: DType, name: str = "") -> None:
    """PyTorch's RuntimeError for a Python number that the dtype does not hold.

    Negative numbers fit unsigned dtypes as far as they wrap around: -255 in uint8, not -256.
    name: what the text calls the dtype, where it is not the C++ type.
    """
    if value.__class__ is Tracked:  # a learning rate: looking at it would make it a constant
        return
    if isinstance(value, complex):
        if dtype.kind == "complex":
            for part in (value.real, value.imag):
                check_number(part, dtype.to_real())
            return
        if value.imag and dtype.kind != "bool":
            _does_not_fit(name or number_name(dtype))
        value = value.real
    if dtype.kind == "bool" or value.__class__ is bool:
        return
    real = dtype.to_real()
    if real.kind == "float":
        if math.isfinite(value) and abs(value) > float(ml_dtypes.finfo(real.np).max):
            _does_not_fit(name or number_name(dtype))
        return
    info = np.iinfo(real.np)
    low = -int(info.max) if real.kind == "uint" else int(info.min)
    if not (math.isfinite(value) and low <= value <= int(info.max)):
        _does_not_fit(name or number_name(dtype))


def _does_not_fit(name: str) -> NoReturn:
    raise RuntimeError(f"value cannot be converted to type {name} without overflow")


def wrapped(value: Any, dtype: DType) -> Any:
    """The number as the dtype holds it: a negative one in an unsigned dtype wraps around."""
    return int(value) % 256**dtype.itemsize if dtype.kind == "uint" and value < 0 else value


def python_number(arg: Any) -> Any:
    """numpy numbers and the like."""
    if hasattr(arg, "item"):
        return arg.item()
    if hasattr(arg, "__index__"):
        return arg.__index__()
    if hasattr(arg, "__float__") and not isinstance(arg, str):
        return float(arg)
    raise TypeError(f"expected a Tensor or a number, got {type(arg).__name__}")


def common_dtype(record: OpDef, operands: Sequence[Any]) -> DType:
    """PyTorch's promotion; `float` records give integers the default dtype."""
    dtype = None
    for arg in operands:
        if arg.__class__ in NUMBERS or not isinstance(arg, Tensor):
            dtype = result_type(operands)
            break
        if dtype is None:
            dtype = arg._dtype
        elif arg._dtype is not dtype:
            dtype = result_type(operands)
            break
    assert dtype is not None
    if record.promote == "float" and dtype.kind not in INEXACT:
        return Defaults.dtype
    return dtype


def result_type(operands: Sequence[Any]) -> DType:
    """Tensors with dimensions count first, then 0-dim tensors, then Python numbers."""
    dims = zero = number = None
    for arg in operands:
        if isinstance(arg, Tensor):
            if arg._shape:
                dims = arg._dtype if dims is None else promote_types(dims, arg._dtype)
            else:
                zero = arg._dtype if zero is None else promote_types(zero, arg._dtype)
        else:
            kind = number_dtype(arg)
            number = kind if number is None else promote_types(number, kind)
    result = _of_categories(dims, _of_categories(zero, number))
    assert result is not None
    return result


def _of_categories(higher: DType | None, lower: DType | None) -> DType | None:
    """The higher one, unless the lower one is of a higher category (or the higher is bool)."""
    if higher is None or lower is None:
        return higher or lower
    if higher.kind == "complex":
        return higher
    if higher.kind == "float":
        return higher.to_complex() if lower.kind == "complex" else higher
    if higher.kind == "bool" or lower.kind == "float":
        return promote_types(higher, lower)
    return lower if lower.kind == "complex" else higher


def number_dtype(arg: Any) -> DType:
    if isinstance(arg, Node):
        return arg.dtype
    if arg.__class__ is Tracked:
        return Defaults.dtype
    if arg.__class__ not in NUMBERS:
        arg = python_number(arg)
    if arg.__class__ is bool:
        return bool_
    if isinstance(arg, complex):
        return Defaults.dtype.to_complex()
    return int64 if isinstance(arg, int) else Defaults.dtype
