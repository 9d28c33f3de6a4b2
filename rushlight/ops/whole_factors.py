"""Factors as LAPACK keeps them: packed reflectors, row changes as a matrix, square bases.

Run on the host, without gradients, as in PyTorch. Operands are [..., M, N]; as in `linalg.py` an op
of several results has one record and an attribute `part`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_
from rushlight.ir.opdef import Arg, Attr, Call, NotDifferentiable
from rushlight.ir.symint_math import minimum as size_minimum
from rushlight.ops.factor import permutation
from rushlight.ops.linalg import SQUARE_ERRORS, check_matrix, host_op, well
from rushlight.ops.rules import Shape
from rushlight.ops.samples import Sample

NO_GRADIENT = NotDifferentiable("only the first min(M, N) vectors are determined by the matrix")


def geqrf_reference(x: np.ndarray, part: str) -> np.ndarray:
    lead, (m, n) = x.shape[:-2], x.shape[-2:]
    found = [np.linalg.qr(one, "raw") for one in x.reshape((math.prod(lead), m, n))]
    if part == "tau":
        return np.array([tau for _, tau in found], x.dtype).reshape((*lead, min(m, n)))
    return np.array([packed.T for packed, _ in found], x.dtype).reshape(x.shape)


def geqrf_shape(call: Call) -> Shape:
    *lead, m, n = call["x"].shape
    return (*lead, m, n) if call["part"] == "a" else (*lead, size_minimum(m, n))


geqrf = host_op(
    "geqrf",
    "LAPACK's Householder vectors packed below R (`a`), or their factors (`tau`).",
    (Arg("x"), Attr("part", "a")),
    geqrf_reference,
    NotDifferentiable("PyTorch has no gradient of geqrf either"),
    shape=geqrf_shape,
    check=check_matrix,
    samples=lambda rng: [
        Sample((well(rng, 4, 4)[:rows, :columns],), {"part": part})
        for part in ("a", "tau")
        for rows, columns in ((3, 3), (2, 4), (4, 2))
    ],
    error_samples=SQUARE_ERRORS[:1],
)


pivot_permutation = host_op(
    "pivot_permutation",
    "The permutation matrix p of `lu`, from its row changes `pivots`.",
    (Arg("pivots"), Attr("size", 1)),
    lambda pivots, size: permutation(pivots, size).astype(bool),
    NotDifferentiable("row changes are whole numbers"),
    shape=lambda call: (*call["pivots"].shape[:-1], call["size"], call["size"]),
    dtype=lambda call: bool_,
    check=lambda call: None,
    samples=lambda rng: [Sample((np.array([[2, 2, 3], [1, 3, 3]], np.int32),), {"size": 4})],
)


def whole_qr_shape(call: Call) -> Shape:
    *lead, m, n = call["x"].shape
    return (*lead, m, m) if call["part"] == "q" else (*lead, m, n)


whole_qr = host_op(
    "whole_qr",
    "A square orthonormal q, or r with q @ r = x.",
    (Arg("x"), Attr("part", "q")),
    lambda x, part: np.linalg.qr(x, "complete")[0 if part == "q" else 1],
    NO_GRADIENT,
    shape=whole_qr_shape,
    check=check_matrix,
    samples=lambda rng: [Sample((well(rng, 4, 4)[:, :3],), {"part": part}) for part in ("q", "r")],
    error_samples=SQUARE_ERRORS[:1],
)


def whole_svd_shape(call: Call) -> Shape:
    *lead, m, n = call["x"].shape
    size: Any = m if call["part"] == "u" else n
    return (*lead, size, size)


whole_svd = host_op(
    "whole_svd",
    "The square u or vh of a singular value decomposition.",
    (Arg("x"), Attr("part", "u")),
    lambda x, part: np.linalg.svd(x, True)[0 if part == "u" else 2],
    NO_GRADIENT,
    shape=whole_svd_shape,
    check=check_matrix,
    samples=lambda rng: [
        Sample((well(rng, 4, 4)[:rows, :columns],), {"part": part})
        for part, rows, columns in (("u", 4, 3), ("vh", 3, 4))
    ],
    error_samples=SQUARE_ERRORS[:1],
)
