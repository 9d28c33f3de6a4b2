"""L D L^T of symmetric matrices, L D L^H of Hermitian ones, by Bunch and Kaufman.

They need not be positive. Operands are [..., N, N]; the lower triangle counts. As LAPACK's sytf2
and sytrs (hetf2 and hetrs): the factors lie in one matrix, blocks of D have one or two rows,
`pivots` are counted from 1 and negative for the two rows of a block of two. Run on the host, since
numpy hides these routines of its LAPACK.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import DType, int32
from rushlight.ir.opdef import Arg, Attr, Call, NotDifferentiable
from rushlight.ops.factor import factor_shape
from rushlight.ops.linalg import SQUARE_ERRORS, host_op, symmetric
from rushlight.ops.rules import Shape, inexact_dtype, operand_dtype
from rushlight.ops.samples import Sample, array

ALPHA = (1 + 17**0.5) / 8
NO_RULE = NotDifferentiable("PyTorch has no gradient of it either")


def _size(x: np.ndarray) -> np.ndarray:
    """What LAPACK compares: of a complex number the sum of its parts' sizes."""
    return np.abs(np.real(x)) + np.abs(np.imag(x)) if x.dtype.kind == "c" else np.abs(x)


def _turn(x: np.ndarray, hermitian: bool) -> np.ndarray:
    """An element of the upper triangle, from that of the lower."""
    return x.conj() if hermitian else x


def _choose(a: np.ndarray, k: int) -> tuple[int, int]:
    """The row that becomes the pivot, and how many rows the block has."""
    n = len(a)
    here, below = _size(a[k, k]), _size(a[k + 1 :, k])
    if not len(below) or here >= ALPHA * below.max():
        return k, 1
    worst = k + 1 + int(np.argmax(below))
    across = float(_size(a[worst, k:worst]).max())
    if worst < n - 1:
        across = max(across, float(_size(a[worst + 1 :, worst]).max()))
    if here * across >= ALPHA * below.max() ** 2:
        return k, 1
    return worst, 1 if _size(a[worst, worst]) >= ALPHA * across else 2


def _swap(a: np.ndarray, k: int, at: int, to: int, rows: int, hermitian: bool) -> None:
    """Rows and columns `at` and `to` of what is left, in the lower triangle alone."""
    a[to + 1 :, [at, to]] = a[to + 1 :, [to, at]]
    between = a[at + 1 : to, at].copy()
    a[at + 1 : to, at] = _turn(a[to, at + 1 : to], hermitian)
    a[to, at + 1 : to], a[to, at] = _turn(between, hermitian), _turn(a[to, at], hermitian)
    a[at, at], a[to, to] = a[to, to], a[at, at]
    if rows == 2:
        a[k + 1, k], a[to, k] = a[to, k], a[k + 1, k]


def _eliminate(a: np.ndarray, k: int, rows: int, hermitian: bool) -> None:
    if rows == 1:
        column = a[k + 1 :, k] / a[k, k]
        a[k + 1 :, k + 1 :] -= np.tril(np.outer(column, _turn(a[k + 1 :, k], hermitian)))
        a[k + 1 :, k] = column
        return
    left = a[k + 2 :, k : k + 2]
    columns = np.linalg.solve(_block(a[k : k + 2, k : k + 2], hermitian).T, left.T).T
    a[k + 2 :, k + 2 :] -= np.tril(columns @ _turn(left, hermitian).T)
    a[k + 2 :, k : k + 2] = columns


def _block(d: np.ndarray, hermitian: bool) -> np.ndarray:
    """A block of D, from its lower triangle."""
    return np.tril(d) + _turn(np.tril(d, -1), hermitian).T


def ldl_matrix(x: np.ndarray, hermitian: bool = False) -> tuple[np.ndarray, np.ndarray, int]:
    """The packed factors, the pivots, and the first zero on D's diagonal (0: none)."""
    a, n, k, info = np.tril(x), len(x), 0, 0
    if hermitian:
        np.fill_diagonal(a, np.real(a.diagonal()))
    pivots = np.zeros(n, np.int32)
    while k < n:
        if not np.any(a[k:, k]):
            info = info or k + 1
            pivots[k] = k + 1
            k += 1
            continue
        to, rows = _choose(a, k)
        at = k + rows - 1
        if to != at:
            _swap(a, k, at, to, rows, hermitian)
        _eliminate(a, k, rows, hermitian)
        pivots[k : k + rows] = to + 1 if rows == 1 else -(to + 1)
        k += rows
    return a, pivots, info


def ldl_reference(x: np.ndarray, part: str, hermitian: bool) -> np.ndarray:
    *lead, n, _ = x.shape
    matrices = x.reshape((int(np.prod(lead, dtype=int)), n, n))
    found = [ldl_matrix(matrix, hermitian) for matrix in matrices]
    which = ("ld", "pivots", "info").index(part)
    shape = {"ld": (*lead, n, n), "pivots": (*lead, n), "info": tuple(lead)}[part]
    dtype = x.dtype if part == "ld" else np.int32
    return np.array([f[which] for f in found], dtype).reshape(shape)


def ldl_shape(call: Call) -> Shape:
    shape = call["x"].shape
    return {"ld": shape, "pivots": shape[:-1], "info": shape[:-2]}[call["part"]]


def ldl_dtype(call: Call) -> DType:
    return inexact_dtype(call) if call["part"] == "ld" else int32


ldl = host_op(
    "ldl",
    "A part of the L D L^T of a symmetric matrix: both factors `ld`, the `pivots`, or `info`.",
    (Arg("x"), Attr("part", "ld"), Attr("hermitian", False)),
    ldl_reference,
    NO_RULE,
    shape=ldl_shape,
    dtype=ldl_dtype,
    samples=lambda rng: [
        Sample((symmetric(rng, 4, 4) - 3,), {"part": part}) for part in ("ld", "pivots", "info")
    ],
    error_samples=SQUARE_ERRORS,
)


def _solve_matrix(a: np.ndarray, pivots: np.ndarray, b: np.ndarray, hermitian: bool) -> np.ndarray:
    """Forward through the swaps, L and D; back through L^T and the swaps."""
    n, x, k = len(a), b.copy(), 0
    blocks = []
    while k < n:
        rows = 1 if pivots[k] > 0 else 2
        at, to = k + rows - 1, abs(int(pivots[k])) - 1
        blocks.append((k, rows, at, to))
        x[[at, to]] = x[[to, at]]
        x[k + rows :] -= a[k + rows :, k : k + rows] @ x[k : k + rows]
        d = _block(a[k : k + rows, k : k + rows], hermitian)
        x[k : k + rows] = np.linalg.solve(d, x[k : k + rows])
        k += rows
    for k, rows, at, to in reversed(blocks):
        x[k : k + rows] -= _turn(a[k + rows :, k : k + rows], hermitian).T @ x[k + rows :]
        x[[at, to]] = x[[to, at]]
    return x


def ldl_solve_reference(
    ld: np.ndarray, pivots: np.ndarray, b: np.ndarray, hermitian: bool
) -> np.ndarray:
    lead = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
    found = np.empty((*lead, *b.shape[-2:]), b.dtype)
    ld = np.broadcast_to(ld, (*lead, *ld.shape[-2:]))
    pivots = np.broadcast_to(pivots, (*lead, pivots.shape[-1]))
    b = np.broadcast_to(b, found.shape)
    for at in np.ndindex(lead):
        found[at] = _solve_matrix(ld[at], pivots[at], b[at], hermitian)
    return found


def _ldl_samples(rng: Any) -> list[Sample]:
    packed, pivots, _ = ldl_matrix(symmetric(rng, 4, 4) - 3)
    return [Sample((packed, pivots, array(rng, 4, 2)))]


ldl_solve = host_op(
    "ldl_solve",
    "x with a @ x = b, from the factors and pivots of a.",
    (Arg("factor"), Arg("pivots"), Arg("b"), Attr("hermitian", False)),
    ldl_solve_reference,
    NO_RULE,
    shape=factor_shape,
    dtype=operand_dtype,
    check=lambda call: None,
    samples=_ldl_samples,
)
