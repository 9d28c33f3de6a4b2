"""Python numbers beside tensors: their nodes, and the dtype in which operands meet.

In: operands of a call (tensors, numbers, nodes). Out: nodes of the numbers, and the common dtype by
PyTorch's rules of promotion. A complex number is two real inputs of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from rushlight.tensors.type_names import cpp_name

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
        raise RuntimeError(f"value cannot be converted to type {cpp_name(dtype)} without overflow")
    elif dtype.kind == "float":
        arg = float(arg)
    elif dtype.kind == "bool":
        arg = bool(arg)
    else:
        arg = int(arg)
    return scalar_node(arg, dtype)


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
    result = dims
    for weaker in (zero, number):
        if weaker is None:
            continue
        if result is None:
            result = weaker
        elif CATEGORY[weaker.kind] > CATEGORY[result.kind]:
            # A float that meets integers takes the default dtype when it is a Python number.
            keeps_parts = weaker.kind == "complex" and result.kind == "float"
            result = result.to_complex() if keeps_parts else weaker
    assert result is not None
    return result


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
