"""Elementwise primitives that choose or convert: where, cast, bitcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import DType, bool_, convert_array, float32, float64, int32, uint8
from rushlight.ir import float8 as float8  # conversions of numbers of one byte
from rushlight.ir import scalar as s
from rushlight.ir.opdef import Arg, Attr, Call, NotDifferentiable, op
from rushlight.ops import complex_pairs as pairs
from rushlight.ops.meta import Meta
from rushlight.ops.rules import common_dtype, dtype_attr, elementwise_shape
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, truth


def where_grad(g: Any, condition: Any, meta: Meta) -> tuple:
    return (
        None,
        where(condition, g, 0) if meta.needs("x") else None,
        where(condition, 0, g) if meta.needs("y") else None,
    )


def check_condition(call: Call) -> None:
    if call["condition"].dtype is not bool_:
        name = call["condition"].dtype.name
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got {name}")


def where_samples(rng: Rng) -> list[Sample]:
    return [
        Sample((truth(rng, 3, 4), array(rng, 3, 4), array(rng, 4))),
        Sample((truth(rng, 3, 1), array(rng), array(rng, 1, 2))),
    ]


where = op(
    name="where",
    doc="x where the condition is true, else y.",
    inputs=(Arg("condition"), Arg("x"), Arg("y")),
    shape=elementwise_shape,
    dtype=common_dtype,
    scalar=s.select,
    reference=np.where,
    grad=where_grad,
    torch=("torch.where",),
    cheap=True,
    pair=pairs.where,
    check=check_condition,
    samples=where_samples,
    error_samples=(
        ErrorSample((np.ones(2), np.ones(2), np.ones(2)), {}, RuntimeError, "boolean tensor"),
        ErrorSample((np.ones(2, bool), np.ones(2), np.ones(3)), {}, RuntimeError, "size of tensor"),
    ),
)


def scalar_cast(x: s.E, dtype: DType) -> s.E:
    """Any number is true but 0 (NaN too)."""
    if dtype is bool_ and x.dtype is not bool_:
        wide = s.cast(x, x.dtype.compute)
        return s.ne(wide, s.const(0, wide.dtype))
    return s.cast(x, dtype)


def cast_reference(x: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.kind == "complex" or x.dtype.kind in "cV":
        return convert_array(x, dtype)
    if dtype.kind == "uint" and x.dtype.kind == "f":
        # Through int64, so that -1.0 becomes 255 on every machine.
        return x.astype(np.int64).astype(dtype.np)
    return x.astype(dtype.np)


def cast_grad(g: Any, meta: Meta) -> tuple:
    """Of a real operand, the real part is what comes back."""
    both = meta.dtype("x").is_inexact and meta.out_dtype.is_inexact
    return (cast(g, meta.dtype("x")) if both else None,)


def cast_samples(rng: Rng) -> list[Sample]:
    targets = (float32, float64, int32, bool_)
    return [Sample((array(rng, 3, 2),), {"dtype": d}) for d in targets] + [
        Sample((truth(rng, 4),), {"dtype": float32})
    ]


cast = op(
    name="cast",
    doc="Convert to another dtype.",
    inputs=(Arg("x"), Attr("dtype")),
    shape=elementwise_shape,
    dtype=dtype_attr,
    scalar=scalar_cast,
    reference=cast_reference,
    grad=cast_grad,
    pair=pairs.cast,
    cheap=True,
    promote="none",
    samples=cast_samples,
)


def check_itemsize(call: Call) -> None:
    have, want = call["x"].dtype, call["dtype"]
    if have.itemsize != want.itemsize:
        raise RuntimeError(f"bitcast: {have.name} and {want.name} differ in size")


bitcast = op(
    name="bitcast",
    doc="The same bits read as another dtype of the same size.",
    inputs=(Arg("x"), Attr("dtype")),
    shape=elementwise_shape,
    dtype=dtype_attr,
    scalar=s.bitcast,
    reference=lambda x, dtype: np.ascontiguousarray(x).view(dtype.np),
    grad=NotDifferentiable("bits are not numbers"),
    cheap=True,
    promote="none",
    check=check_itemsize,
    samples=lambda rng: [Sample((array(rng, 3).astype(np.float32),), {"dtype": int32})],
    error_samples=(ErrorSample((np.ones(2),), {"dtype": uint8}, RuntimeError, "differ in size"),),
)
