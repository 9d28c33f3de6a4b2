"""Shared shape and dtype rules, and small graph builders that rules and decompositions use.

Sizes are ints or Exprs. They are compared only by `==`: two symbolic sizes that are written
differently are taken on trust, because the concrete call was checked when it was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base.dtypes import DType, bool_, int64
from rushlight.ir.arguments import wrap_dim
from rushlight.ir.complex_operands import refusal
from rushlight.ir.node import Node, const_node
from rushlight.ir.opdef import Call
from rushlight.ir.symint import Expr

Shape = tuple[Any, ...]
MAX_DIMS = 64  # of a reduction over chosen dimensions, as in PyTorch


def is_static(size: Any) -> bool:
    """True for a size that is a plain number."""
    return not isinstance(size, Expr)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape of elementwise operands; RuntimeError with PyTorch's text."""
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    ndim = max(len(shape) for shape in shapes)
    result: list[Any] = [1] * ndim
    for shape in shapes:
        lead = ndim - len(shape)
        for i, size in enumerate(shape):
            known = result[lead + i]
            if size == 1 or size == known:
                continue
            if known == 1 or (is_static(size) and not is_static(known)):
                result[lead + i] = size
            elif is_static(size) and is_static(known):
                raise RuntimeError(
                    f"The size of tensor a ({known}) must match the size of tensor b ({size}) "
                    f"at non-singleton dimension {lead + i}"
                )
    return tuple(result)


def operands(call: Call) -> list[Node]:
    """The tensor operands of a call, values left out."""
    values = sum(p.kind == "value" for p in call.op.params)
    return list(call.src[: len(call.src) - values])


def elementwise_shape(call: Call) -> Shape:
    """The broadcast of all operands."""
    src = call.src
    if len(src) == 1:
        return src[0].shape
    if len(src) == 2:
        a, b = src[0].shape, src[1].shape
        if a == b or not b:
            return a
        if not a:
            return b
    return broadcast_shapes(*(node.shape for node in src))


def operand_shape(call: Call) -> Shape:
    """The shape of the first operand."""
    return call.src[0].shape


def operand_dtype(call: Call) -> DType:
    """The dtype of the first operand."""
    return call.src[0].dtype


def common_dtype(call: Call) -> DType:
    """The one dtype of all elementwise operands (`condition` left out)."""
    src = call.src
    if len(src) == 1 or (len(src) == 2 and src[0].dtype is src[1].dtype):
        return src[0].dtype
    dtype: DType | None = None
    for param in call.op.params:
        node = call.named[param.name]
        if param.kind != "tensor" or param.name == "condition" or node is None:
            continue
        if dtype is None:
            dtype = node.dtype
        elif node.dtype is not dtype:
            raise RuntimeError(
                f"{call.op.name}: operands must have one dtype, "
                f"got {dtype.name} and {node.dtype.name}"
            )
    assert dtype is not None
    return dtype


def refuse_bool(call: Call) -> None:
    """There are no products of bools: said where they are called, not where they are computed."""
    if common_dtype(call) is bool_:
        raise NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Bool'")


def float_dtype(call: Call) -> DType:
    """The operands' dtype, which must be a floating point one."""
    dtype = common_dtype(call)
    if dtype.kind != "float":
        raise RuntimeError(f"{call.op.name}: operands must be floating point, got {dtype.name}")
    return dtype


def inexact_dtype(call: Call) -> DType:
    """The operands' dtype, which must be floating point or complex."""
    dtype = common_dtype(call)
    if not dtype.is_inexact:
        raise RuntimeError(
            f"{call.op.name}: operands must be floating point or complex, got {dtype.name}"
        )
    return dtype


def size_dtype(call: Call) -> DType:
    """The operand's dtype; of complex numbers, that of their parts."""
    return common_dtype(call).to_real()


# The kernels' names in PyTorch's errors, where they are not the functions'.
KERNELS = {"shift_left": "lshift", "shift_right": "rshift", "floor_divide": "div_floor"}


def _dtype_of_kind(call: Call, kinds: tuple[str, ...]) -> DType:
    dtype = common_dtype(call)
    if dtype.kind not in kinds:
        raise NotImplementedError(refusal(KERNELS.get(call.op.name, call.op.name), dtype))
    return dtype


def integral_dtype(call: Call) -> DType:
    """The operands' dtype, which must be an integer or bool."""
    return _dtype_of_kind(call, ("int", "uint", "bool"))


def whole_dtype(call: Call) -> DType:
    """The operands' dtype, an integer one."""
    return _dtype_of_kind(call, ("int", "uint"))


def number_dtype(call: Call) -> DType:
    """The operands' dtype, which must not be bool."""
    return _dtype_of_kind(call, ("int", "uint", "float", "complex"))


def bool_dtype(call: Call) -> DType:
    common_dtype(call)
    return bool_


def int64_dtype(call: Call) -> DType:
    return int64


def dtype_attr(call: Call) -> DType:
    """The attribute `dtype`."""
    return call["dtype"]


def without_dims(shape: Shape, dims: Sequence[int]) -> Shape:
    return tuple(size for i, size in enumerate(shape) if i not in dims)


def keepdim_shape(shape: Shape, dims: Sequence[int]) -> Shape:
    return tuple(1 if i in dims else size for i, size in enumerate(shape))


def replace_dim(shape: Shape, dim: int, size: Any) -> Shape:
    return (*shape[:dim], size, *shape[dim + 1 :])


def all_dims(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions as a tuple; None and () mean all of them (PyTorch's reductions)."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    if ndim > MAX_DIMS:
        raise RuntimeError(f"only tensors with up to {MAX_DIMS} dims are supported")
    dims = (dim,) if isinstance(dim, int) else dim
    return tuple(wrap_dim(d, ndim) for d in dims)


def reduced_shape(call: Call) -> Shape:
    """Public reductions: `dim` None or a tuple, `keepdim`."""
    shape = call.src[0].shape
    dims = all_dims(call["dim"], len(shape))
    return keepdim_shape(shape, dims) if call["keepdim"] else without_dims(shape, dims)


def const(value: Any, dtype: DType) -> Node:
    """A 0-dim constant of a rule."""
    return const_node(value, dtype)


def no_short_floats(name: str, check: Callable[[Call], None] | None) -> Callable[[Call], None]:
    """The check of an op that the host's library computes: it knows no floats of 16 bits."""

    def check_all(call: Call) -> None:
        dtype = call.src[0].dtype
        if dtype.kind == "float" and dtype.itemsize < 4:
            raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")
        if check is not None:
            check(call)

    return check_all
