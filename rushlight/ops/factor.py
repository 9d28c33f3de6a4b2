"""Factorisations run on the host that numpy's LAPACK lacks or hides: LU, triangular solve, pinv.

Operands are [..., M, N]. As in `linalg.py`: an op of several results has one record and an
attribute `part`; gradients are graphs of other records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import DType, int32
from rushlight.ir.opdef import Arg, Attr, Call
from rushlight.ir.symint_math import minimum as size_minimum
from rushlight.ops.binary import add, eq, sub
from rushlight.ops.build import iota_along, pad_dim, slice_dim, to_dtype
from rushlight.ops.diagonals import tril, triu
from rushlight.ops.lapack import lu_array, zero_pivot
from rushlight.ops.linalg import check_matrix, check_square, h, host_op, well
from rushlight.ops.meta import Meta
from rushlight.ops.products import matmul
from rushlight.ops.rules import Shape, broadcast_shapes, common_dtype, inexact_dtype
from rushlight.ops.samples import ErrorSample, Sample, array


def identity(size: Any, dtype: DType) -> Any:
    """The identity matrix as a node."""
    return to_dtype(eq(iota_along(2, 0, size), iota_along(2, 1, size)), dtype)


def permutation(pivots: np.ndarray, size: int) -> np.ndarray:
    """Rows of the identity in the order that the changes give: A = P L U, [..., size, size]."""
    flat = pivots.reshape(int(np.prod(pivots.shape[:-1], dtype=int)), pivots.shape[-1])
    result = np.zeros((len(flat), size, size))
    for batch, changes in enumerate(flat):
        order = np.arange(size)
        for i, at in enumerate(changes):
            order[[i, at - 1]] = order[[at - 1, i]]
        result[batch, order, np.arange(size)] = 1
    return result.reshape((*pivots.shape[:-1], size, size))


def lu_reference(x: np.ndarray, part: str, pivot: bool) -> np.ndarray:
    packed, pivots = lu_array(x, pivot)
    m, n = x.shape[-2:]
    k = min(m, n)
    if part == "pivots":
        return pivots
    if part == "info":
        return zero_pivot(x)
    if part == "p":
        return permutation(pivots, m).astype(x.dtype)
    if part == "u":
        return np.triu(packed[..., :k, :])
    return np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=x.dtype)


def lu_shape(call: Call) -> Shape:
    *lead, m, n = call["x"].shape
    k = size_minimum(m, n)
    shapes = {"l": (*lead, m, k), "u": (*lead, k, n), "p": (*lead, m, m), "pivots": (*lead, k)}
    return {**shapes, "info": tuple(lead)}[call["part"]]


def lu_dtype(call: Call) -> DType:
    return int32 if call["part"] in ("pivots", "info") else inexact_dtype(call)


def lu_grad(g: Any, x: Any, part: str, pivot: bool) -> tuple:
    """Each factor's share; `inner` is what meets the other factor inside its triangle."""
    if part in ("p", "pivots", "info"):
        return (None,)
    p, low, up = (lu(x, part=name, pivot=pivot) for name in ("p", "l", "u"))
    m, n = x.shape[-2:]
    if m <= n:
        square = slice_dim(up, up.shape, up.ndim - 1, 0, m)
        cross = matmul(h(low), g) if part == "l" else -matmul(g, h(up))
        inner = solve_triangular(square, h(tril(cross, -1)), upper=True, unit=False)
        # (inner U1^-H)^H = U1^-1 inner^H
        wide = pad_dim(h(inner), x.ndim, x.ndim - 1, 0, n - m, 0, x.dtype)
        total = wide if part == "l" else add(g, wide)
        return (matmul(p, solve_triangular(h(low), total, upper=True, unit=True)),)
    top = slice_dim(low, low.shape, low.ndim - 2, 0, n)
    cross = triu(-matmul(h(low), g) if part == "l" else matmul(g, h(up)))
    inner = solve_triangular(h(top), cross, upper=True, unit=True)
    tall = pad_dim(inner, x.ndim, x.ndim - 2, 0, m - n, 0, x.dtype)
    total = add(g, tall) if part == "l" else tall
    return (matmul(p, h(solve_triangular(up, h(total), upper=True, unit=False))),)


lu = host_op(
    "lu",
    "A part of x = p @ l @ u: l (ones on its diagonal), u, p, or the row changes `pivots`.",
    (Arg("x"), Attr("part", "l"), Attr("pivot", True)),
    lu_reference,
    lu_grad,
    shape=lu_shape,
    dtype=lu_dtype,
    check=check_matrix,
    samples=lambda rng: [
        Sample((well(rng, 4, 4)[:rows, :columns],), {"part": part})
        for part in ("l", "u")
        for rows, columns in ((3, 3), (2, 4), (4, 2))
    ],
    error_samples=(ErrorSample((np.ones(3),), {}, RuntimeError, "at least 2 dim"),),
)


def triangle(a: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    a = np.triu(a) if upper else np.tril(a)
    if unit:
        at = np.arange(a.shape[-1])
        a[..., at, at] = 1
    return a


def triangular_reference(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """Substitution row by row (solve() would refuse a singular triangle; here it gives inf)."""
    a = triangle(a, upper, unit)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.broadcast_to(b, (*lead, *b.shape[-2:])).copy()
    size = a.shape[-1]
    with np.errstate(all="ignore"):
        for i in reversed(range(size)) if upper else range(size):
            rest = slice(i + 1, size) if upper else slice(0, i)
            known = a[..., i : i + 1, rest] @ x[..., rest, :]
            x[..., i : i + 1, :] = (x[..., i : i + 1, :] - known) / a[..., i : i + 1, i : i + 1]
    return x


def triangular_grad(g: Any, a: Any, out: Any, upper: bool, unit: bool, meta: Meta) -> tuple:
    by_b = solve_triangular(h(a), g, upper=not upper, unit=unit)
    if not meta.needs("a"):
        return None, by_b
    whole = -matmul(by_b, h(out))
    return (triu(whole, int(unit)) if upper else tril(whole, -int(unit))), by_b


def triangular_shape(call: Call) -> Shape:
    a, b = call["a"].shape, call["b"].shape
    return (*broadcast_shapes(a[:-2], b[:-2]), *b[-2:])


solve_triangular = host_op(
    "solve_triangular",
    "x with a @ x = b, where only one triangle of a is read (unit: with ones on the diagonal).",
    (Arg("a"), Arg("b"), Attr("upper", True), Attr("unit", False)),
    triangular_reference,
    triangular_grad,
    shape=triangular_shape,
    dtype=common_dtype,
    check=check_square,
    samples=lambda rng: [
        Sample((well(rng, 3, 3), array(rng, 3, 2)), {"upper": upper, "unit": unit})
        for upper in (True, False)
        for unit in (True, False)
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((2, 1))), {}, RuntimeError, "square matrices"),
    ),
)


def cholesky_solve_reference(b: np.ndarray, factor: np.ndarray, upper: bool) -> np.ndarray:
    low = _turned(factor) if upper else factor
    half = triangular_reference(low, b, False, False)
    return triangular_reference(_turned(low), half, True, False)


def _turned(x: np.ndarray) -> np.ndarray:
    """The conjugate transpose."""
    return np.conj(np.swapaxes(x, -1, -2))


def cholesky_solve_grad(g: Any, factor: Any, out: Any, upper: bool, meta: Meta) -> tuple:
    """As of A = L L^H: both triangles of the factor get a share, as PyTorch's do."""
    by_b = cholesky_solve(g, factor, upper=upper)
    if not meta.needs("factor"):
        return by_b, None
    share = matmul(by_b, h(out))
    share = add(share, h(share))
    return by_b, -(matmul(factor, share) if upper else matmul(share, factor))


def factor_shape(call: Call) -> Shape:
    b, factor = call["b"].shape, call["factor"].shape
    return (*broadcast_shapes(b[:-2], factor[:-2]), *b[-2:])


cholesky_solve = host_op(
    "cholesky_solve",
    "x with a @ x = b, from the Cholesky factor of a.",
    (Arg("b"), Arg("factor"), Attr("upper", False)),
    cholesky_solve_reference,
    cholesky_solve_grad,
    shape=factor_shape,
    dtype=common_dtype,
    check=lambda call: None,
    samples=lambda rng: [
        Sample((array(rng, 3, 2), np.tril(well(rng, 3, 3))), {"upper": False}, skip=("factor",)),
        Sample((array(rng, 3, 2), np.triu(well(rng, 3, 3))), {"upper": True}, skip=("factor",)),
    ],
)


def pinv_reference(x: np.ndarray, atol: float, rtol: float, hermitian: bool) -> np.ndarray:
    if not x.size:
        return np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    if hermitian:  # the lower triangle counts, as in eigh
        low = np.tril(x, -1)
        x = low + _turned(low) + np.real(np.tril(np.triu(x)))
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    limit = np.maximum(atol, rtol * s.max(-1, keepdims=True))
    back = np.where(s > limit, 1 / np.where(s > limit, s, 1), 0).astype(x.dtype)
    return _turned(vh) @ (back[..., None] * _turned(u))


def pinv_grad(g: Any, x: Any, out: Any) -> tuple:
    """Golub and Pereyra: the rank stays what it is."""
    m, n = x.shape[-2:]
    left = sub(identity(m, x.dtype), matmul(x, out))
    right = sub(identity(n, x.dtype), matmul(out, x))
    inside = -matmul(h(out), matmul(g, h(out)))
    above = matmul(matmul(left, h(g)), matmul(out, h(out)))
    below = matmul(matmul(h(out), out), matmul(h(g), right))
    return (add(inside, add(above, below)),)


pinv = host_op(
    "pinv",
    "The pseudo-inverse: singular values up to max(atol, rtol * largest) count as 0.",
    (Arg("x"), Attr("atol", 0.0), Attr("rtol", 1e-6), Attr("hermitian", False)),
    pinv_reference,
    pinv_grad,
    shape=lambda call: (*call["x"].shape[:-2], call["x"].shape[-1], call["x"].shape[-2]),
    check=check_matrix,
    samples=lambda rng: [
        Sample((well(rng, 4, 4)[:rows, :columns],)) for rows, columns in ((3, 3), (2, 4), (4, 2))
    ],
    error_samples=(ErrorSample((np.ones(3),), {}, RuntimeError, "at least 2 dim"),),
)
