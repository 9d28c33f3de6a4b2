"""Eigenvalues and eigenvectors of any square matrix, by the host's LAPACK (geev)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.ir.opdef import Arg, Attr, Call
from rushlight.ops.binary import div, mul, sub
from rushlight.ops.build import conj_of, real_of, to_dtype
from rushlight.ops.diagonals import diag_embed, diagonal
from rushlight.ops.linalg import SQUARE_ERRORS, h, host_op, on_diagonal, solve, well
from rushlight.ops.meta import Meta
from rushlight.ops.movement import reshape
from rushlight.ops.products import matmul
from rushlight.ops.rules import inexact_dtype
from rushlight.ops.samples import Rng, Sample
from rushlight.ops.select import where


def eig_reference(x: np.ndarray, part: str) -> np.ndarray:
    found = np.linalg.eig(x)[0 if part == "values" else 1]
    return found.astype(np.result_type(x.dtype, np.complex64))  # numpy gives floats where it can


def eig_dtype(call: Call) -> DType:
    return inexact_dtype(call).to_complex()


def eig_grad(g: Any, x: Any, part: str, meta: Meta) -> tuple:
    """V^-H (diag(g) or (V^H g - V^H V diag(re V^H g)) / gaps) V^H; vectors have the norm 1."""
    values, vectors = eig(x, part="values"), eig(x, part="vectors")
    size = values.shape[-1]
    if part == "values":
        inner = diag_embed(g)
    else:
        inner = matmul(h(vectors), g)
        along = to_dtype(real_of(diagonal(inner, 0, -2, -1)), g.dtype)
        row = reshape(along, (*along.shape[:-1], 1, size))
        inner = sub(inner, mul(matmul(h(vectors), vectors), row))
        columns = reshape(values, (*values.shape[:-1], 1, size))
        gaps = sub(columns, reshape(values, (*values.shape, 1)))
        on = on_diagonal(size)
        inner = where(on, 0.0, div(inner, conj_of(where(on, 1.0, gaps))))
    total = solve(h(vectors), matmul(inner, h(vectors)))
    return (total if meta.dtype("x").is_complex else real_of(total),)


def eig_samples(rng: Rng) -> list[Sample]:
    """Vectors are known up to a phase, so their gradient is not checked element by element."""
    x = well(rng, 3, 3)
    return [
        Sample((x + 0.3j * x.T,), {"part": "values"}),
        Sample((x,), {"part": "values"}),
        Sample((x,), {"part": "vectors"}, skip=("x",)),
    ]


eig = host_op(
    "eig",
    "Eigenvalues or eigenvectors (columns of norm 1) of a square matrix: complex numbers.",
    (Arg("x"), Attr("part", "values")),
    eig_reference,
    eig_grad,
    shape=lambda call: call["x"].shape[: -1 if call["part"] == "values" else None],
    dtype=eig_dtype,
    samples=eig_samples,
    error_samples=SQUARE_ERRORS,
)
