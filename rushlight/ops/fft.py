"""Discrete Fourier transforms: run on the host by numpy's pocketfft.

`norm` says what the result is divided by: "none", "root" of the number of points, or the number
itself ("count"). The public functions of torch.fft choose it, and cut or pad the operand.
Gradients are transforms again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.ir.opdef import Arg, Attr, Call, Dims, op
from rushlight.ir.symint import floordiv
from rushlight.ops.binary import ge, logical_and, lt
from rushlight.ops.build import iota_along, pad_dim, size_value, to_dtype
from rushlight.ops.complex import check_complex_operand, real
from rushlight.ops.meta import Meta
from rushlight.ops.rules import (
    Shape,
    float_dtype,
    operand_dtype,
    operand_shape,
    replace_dim,
)
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, complex_array
from rushlight.ops.select import where

NORMS = ("none", "root", "count")
# numpy names the same thing by what the other direction does.
FORWARD = {"none": "backward", "root": "ortho", "count": "forward"}
BACKWARD = {"none": "forward", "root": "ortho", "count": "backward"}


def check_norm(call: Call) -> None:
    if call["norm"] not in NORMS:
        raise ValueError(f"{call.op.name}: norm must be one of {NORMS}, got {call['norm']!r}")
    if not call["dims"]:
        raise RuntimeError(f"{call.op.name}: dims must name at least one dimension")


def check_complex(call: Call) -> None:
    check_complex_operand(call)
    check_norm(call)


def complex_reference(x: np.ndarray, dims: tuple, norm: str, forward: bool) -> np.ndarray:
    if forward:
        return np.fft.fftn(x, axes=dims, norm=FORWARD[norm])  # type: ignore
    return np.fft.ifftn(x, axes=dims, norm=BACKWARD[norm])  # type: ignore


def complex_samples(rng: Rng) -> list[Sample]:
    return [
        Sample((complex_array(rng, 3, 4),), {"dims": dims, "norm": norm, "forward": forward})
        for dims, norm, forward in (
            ((1,), "none", True), ((0, 1), "count", False), ((0,), "root", False),
        )
    ]  # fmt: skip


fft_c2c = op(
    name="fft_c2c",
    doc="The transform of complex numbers over dims, forward or back.",
    inputs=(Arg("x"), Dims("dims"), Attr("norm", "none"), Attr("forward", True)),
    shape=operand_shape,
    dtype=operand_dtype,
    kind="host",
    reference=complex_reference,
    grad=lambda g, dims, norm, forward: (fft_c2c(g, dims, norm, not forward),),
    check=check_complex,
    samples=complex_samples,
    error_samples=(
        ErrorSample((np.ones(2),), {"dims": (0,)}, RuntimeError, "only supported for complex"),
        ErrorSample(
            (np.ones(2, complex),), {"dims": (0,), "norm": "all"}, ValueError, "must be one of"
        ),
    ),
)


def half_shape(call: Call) -> Shape:
    """The last of dims keeps the half that is not the conjugate of the other."""
    shape = call["x"].shape
    if not call["onesided"]:
        return shape
    last = call["dims"][-1]
    return replace_dim(shape, last, floordiv(shape[last], 2) + 1)


def complex_of_float(call: Call) -> DType:
    return float_dtype(call).to_complex()


def real_reference(x: np.ndarray, dims: tuple, norm: str, onesided: bool) -> np.ndarray:
    transform = np.fft.rfftn if onesided else np.fft.fftn
    return transform(x, axes=dims, norm=FORWARD[norm])  # type: ignore


def real_grad(g: Any, dims: tuple, norm: str, onesided: bool, meta: Meta) -> tuple:
    """Back from the half that was kept; the rest of the gradient is 0."""
    shape, last = meta.shape("x"), dims[-1]
    if onesided:
        missing = shape[last] - (floordiv(shape[last], 2) + 1)
        g = pad_dim(g, len(shape), last, 0, missing, 0, meta.out_dtype)
    return (real(fft_c2c(g, dims, norm, False)),)


fft_r2c = op(
    name="fft_r2c",
    doc="The forward transform of real numbers over dims.",
    inputs=(Arg("x"), Dims("dims"), Attr("norm", "none"), Attr("onesided", True)),
    shape=half_shape,
    dtype=complex_of_float,
    kind="host",
    reference=real_reference,
    grad=real_grad,
    check=check_norm,
    samples=lambda rng: [
        Sample((array(rng, 3, n),), {"dims": dims, "norm": norm, "onesided": half})
        for n, dims, norm, half in (
            (4, (1,), "none", True), (5, (1,), "root", True), (4, (0, 1), "count", True),
            (5, (1, 0), "none", False),
        )
    ],
    error_samples=(ErrorSample((np.ones(2),), {"dims": ()}, RuntimeError, "at least one"),),
)  # fmt: skip


def whole_shape(call: Call) -> Shape:
    shape, last = call["x"].shape, call["dims"][-1]
    return replace_dim(shape, last, (shape[last] - 1) * 2 + int(call["odd"]))


def back_reference(x: np.ndarray, dims: tuple, norm: str, odd: bool) -> np.ndarray:
    sizes = [*(x.shape[d] for d in dims[:-1]), 2 * (x.shape[dims[-1]] - 1) + odd]
    return np.fft.irfftn(x, s=sizes, axes=dims, norm=BACKWARD[norm])  # type: ignore


def back_grad(g: Any, dims: tuple, norm: str, odd: bool, meta: Meta) -> tuple:
    """Each number that stands for its conjugate too counts twice."""
    found = fft_r2c(g, dims, norm, True)
    half = meta.shape("x")[dims[-1]]
    at = iota_along(meta.ndim("x"), dims[-1], half)
    twice = logical_and(ge(at, 1), lt(at, size_value(half - (not odd))))
    weights = to_dtype(where(twice, 2, 1), meta.dtype("x"))
    return (found * weights,)


fft_c2r = op(
    name="fft_c2r",
    doc="The transform back over dims to real numbers, an odd or an even number in the last dim.",
    inputs=(Arg("x"), Dims("dims"), Attr("norm", "count"), Attr("odd", False)),
    shape=whole_shape,
    dtype=lambda call: call["x"].dtype.to_real(),
    kind="host",
    reference=back_reference,
    grad=back_grad,
    check=check_complex,
    samples=lambda rng: [
        Sample((complex_array(rng, 3, 3),), {"dims": dims, "norm": norm, "odd": odd})
        for dims, norm, odd in (
            ((1,), "count", False),
            ((1,), "none", True),
            ((0, 1), "root", False),
        )
    ],
    error_samples=(
        ErrorSample((np.ones(2),), {"dims": (0,)}, RuntimeError, "only supported for complex"),
    ),
)
