"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import int64
from rushlight.ir.arguments import wrap_dim
from rushlight.ir.opdef import Arg, Attr, Call, Offset, OpDef, find_op
from rushlight.ir.symint_math import maximum as size_maximum
from rushlight.ir.symint_math import minimum as size_minimum
from rushlight.ops.binary import add, eq, ge, le
from rushlight.ops.build import (
    iota_along,
    pad_dim,
    size_value,
)
from rushlight.ops.composite import composite
from rushlight.ops.indexed import gather_nd, iota
from rushlight.ops.movement import permute, reshape
from rushlight.ops.rules import Shape, operand_dtype, operand_shape
from rushlight.ops.samples import ErrorSample, Sample, array
from rushlight.ops.select import where


def _diagonal_span(shape: Shape, offset: int, dim1: int, dim2: int) -> tuple[Any, Any, Any]:
    """(first row, first column, length)."""
    row, column = max(-offset, 0), max(offset, 0)
    length = size_minimum(shape[dim1] - row, shape[dim2] - column)
    return row, column, size_maximum(length, 0)


def diagonal_shape(call: Call) -> Shape:
    shape = call["x"].shape
    dim1, dim2 = (wrap_dim(call[n], len(shape)) for n in ("dim1", "dim2"))
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    _, _, length = _diagonal_span(shape, call["offset"], dim1, dim2)
    return (*(s for i, s in enumerate(shape) if i not in (dim1, dim2)), length)


def diagonal_decompose(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Gather at (row + i, column + i) with the two dims in front."""
    dim1, dim2 = wrap_dim(dim1, x.ndim), wrap_dim(dim2, x.ndim)
    row, column, length = _diagonal_span(x.shape, offset, dim1, dim2)
    rest = [i for i in range(x.ndim) if i not in (dim1, dim2)]
    front = permute(x, (dim1, dim2, *rest))
    at = iota(length, int64)
    lines = gather_nd(front, [add(at, row), add(at, column)])
    return permute(lines, (*range(1, len(rest) + 1), 0))


diagonal = composite(
    "diagonal",
    "The elements with column = row + offset, as a last dim.",
    (Arg("x"), Attr("offset", 0), Attr("dim1", 0), Attr("dim2", 1)),
    diagonal_decompose,
    lambda x, offset, dim1, dim2: np.diagonal(x, offset, dim1, dim2),
    shape=diagonal_shape,
    dtype=operand_dtype,
    compute_f32=False,
    torch=("torch.diagonal", "Tensor.diagonal"),
    samples=lambda rng: [
        Sample((array(rng, 3, 4),), {"offset": 1, "dim1": 0, "dim2": 1}),
        Sample((array(rng, 2, 3, 4),), {"offset": -1, "dim1": -2, "dim2": -1}),
    ],
)


def diag_embed_shape(call: Call) -> Shape:
    shape = call["x"].shape
    size = shape[-1] + abs(call["offset"])
    return (*shape[:-1], size, size)


def diag_embed_decompose(x: Any, offset: int = 0) -> Any:
    """Column j of row i is x[min(i, j)] where j - i = offset."""
    size = x.shape[-1] + abs(offset)
    high = abs(offset)
    padded = pad_dim(x, x.ndim, x.ndim - 1, 0 if offset >= 0 else high, high if offset >= 0 else 0,
                     0, x.dtype)  # fmt: skip
    rows = reshape(padded, (*x.shape[:-1], size, 1))
    on = eq(add(iota_along(2, 0, size), offset), iota_along(2, 1, size))
    return where(on, rows, 0)


def diag_embed_reference(x: np.ndarray, offset: int) -> np.ndarray:
    result = np.zeros(
        (*x.shape[:-1], x.shape[-1] + abs(offset), x.shape[-1] + abs(offset)), x.dtype
    )
    at = np.arange(x.shape[-1])
    result[..., at + max(-offset, 0), at + max(offset, 0)] = x
    return result


diag_embed = composite(
    "diag_embed",
    "Matrices with the last dim on a diagonal (other diagonal dims: permute the result).",
    (Arg("x"), Attr("offset", 0)),
    diag_embed_decompose,
    diag_embed_reference,
    shape=diag_embed_shape,
    dtype=operand_dtype,
    compute_f32=False,
    samples=lambda rng: [Sample((array(rng, 2, 3),), {"offset": o}) for o in (0, 2, -1)],
)

TRIANGLE = (Arg("x"), Offset("diagonal", 0))


def _on_side(x: Any, diagonal: Any, below: bool) -> Any:
    rows, columns = iota_along(2, 0, x.shape[-2]), iota_along(2, 1, x.shape[-1])
    edge = add(rows, size_value(diagonal))
    return where((le if below else ge)(columns, edge), x, 0)


def check_matrix(call: Call) -> None:
    if call["x"].ndim < 2:
        raise RuntimeError(f"{call.op.name}: input tensor must have at least 2 dimensions")


def triangle_samples(rng: Any) -> list[Sample]:
    return [
        Sample((array(rng, 3, 4),), {"diagonal": 0}),
        Sample((array(rng, 2, 3, 3),), {"diagonal": -1}),
        Sample((array(rng, 4, 2),), {"diagonal": 1}),
    ]


MATRIX_ERRORS = (ErrorSample((np.ones(3),), {}, RuntimeError, "at least 2 dim"),)


def _triangle(name: str, doc: str, below: bool, reference: Any) -> OpDef:
    """tril or triu: what is on one side of a diagonal, 0 on the other."""
    return composite(
        name,
        doc,
        TRIANGLE,
        lambda x, diagonal=0: _on_side(x, diagonal, below),
        lambda x, diagonal: reference(x, diagonal),
        lambda g, diagonal: (find_op(name)(g, diagonal),),
        shape=operand_shape,
        dtype=operand_dtype,
        compute_f32=False,
        torch=(f"torch.{name}", f"Tensor.{name}", f"Tensor.{name}_"),
        check=check_matrix,
        samples=triangle_samples,
        error_samples=MATRIX_ERRORS,
    )


tril = _triangle("tril", "0 above the diagonal.", True, np.tril)
triu = _triangle("triu", "0 below the diagonal.", False, np.triu)
