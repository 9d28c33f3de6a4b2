"""torch.linalg: factorizations. The records run LAPACK on the host; what is here gives
PyTorch's signatures, named results, and gradients by composition of records.

Known imperfection: `ldl_factor` is not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import int32
from rushlight.ops.factor import permutation
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import empty, eye, zeros
from rushlight.tensors.functions_complex import adjoint as conj_transpose
from rushlight.tensors.functions_linalg import matmul
from rushlight.tensors.functions_math import _finish
from rushlight.tensors.functions_select import known
from rushlight.tensors.functions_shape import cat, tril, triu
from rushlight.tensors.functions_slices import diagonal, narrow
from rushlight.tensors.functions_solve import (
    _need_matrix,
    _need_square,
    _no_info,
    _write,
    cholesky_solve,
)
from rushlight.tensors.functions_view import expand, matrix_transpose
from rushlight.tensors.interop import look
from rushlight.tensors.results import result_class
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

Eig = result_class("linalg_eig", ("eigenvalues", "eigenvectors"))
Eigh = result_class("linalg_eigh", ("eigenvalues", "eigenvectors"))
Svd = result_class("linalg_svd", ("U", "S", "Vh"))
OldSvd = result_class("svd", ("U", "S", "V"))
Qr = result_class("linalg_qr", ("Q", "R"))
Lu = result_class("linalg_lu", ("P", "L", "U"))
LuFactor = result_class("linalg_lu_factor", ("LU", "pivots"))
LuFactorEx = result_class("linalg_lu_factor_ex", ("LU", "pivots", "info"))
LuUnpack = result_class("lu_unpack", ("P", "L", "U"))
CholeskyEx = result_class("linalg_cholesky_ex", ("L", "info"))
Lstsq = result_class("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))
Geqrf = result_class("geqrf", ("a", "tau"))


# Cholesky ----------------------------------------------------------------------------------


def cholesky(input: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower L with L L^H = input (or its adjoint)."""
    low = apply(ops.cholesky, (input,))
    return _finish(conj_transpose(low) if upper else low, out)


def old_cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """torch.cholesky."""
    return cholesky(input, upper=upper, out=out)


def cholesky_ex(
    input: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """cholesky, and 0 for each matrix that is positive."""
    return _write(CholeskyEx((cholesky(input, upper=upper), _no_info(input))), out)


def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """The inverse of A, from its Cholesky factor."""
    _need_square("cholesky_inverse", L)
    one = expand(eye(L._shape[-1], dtype=L._dtype), L._shape)
    return cholesky_solve(one, L, upper, out=out)


# LU ----------------------------------------------------------------------------------------


def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:  # noqa: N803
    """P, L, U with P L U = A."""
    _need_matrix("lu", A)
    low, up = (apply(ops.lu, (A, part, bool(pivot))) for part in ("l", "u"))
    p = apply(ops.lu, (A.detach(), "p", True)) if pivot else empty(0, dtype=A._dtype)
    return _write(Lu((p, low, up)), out)


def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:  # noqa: N803
    """L and U in one matrix, and the row changes counted from 1."""
    _need_matrix("lu_factor", A)
    low, up = (apply(ops.lu, (A, part, bool(pivot))) for part in ("l", "u"))
    m, n = A._shape[-2:]
    low = tril(low, -1)
    if m > n:
        up = cat([up, zeros(*A._shape[:-2], m - n, n, dtype=A._dtype)], -2)
    elif n > m:
        low = cat([low, zeros(*A._shape[:-2], m, n - m, dtype=A._dtype)], -1)
    return _write(LuFactor((low + up, apply(ops.lu, (A.detach(), "pivots", bool(pivot))))), out)


def lu_factor_ex(
    A: Tensor,
    *,
    pivot: bool = True,
    check_errors: bool = False,
    out: Any = None,  # noqa: N803
) -> Any:
    """lu_factor, and the first zero pivot of each matrix (0: none)."""
    packed, pivots = lu_factor(A, pivot=pivot)
    zero = look(diagonal(packed.detach(), 0, -2, -1)) == 0
    info = np.where(zero.any(-1), zero.argmax(-1) + 1, 0) if zero.shape[-1] else np.zeros(
        zero.shape[:-1]
    )  # fmt: skip
    return _write(LuFactorEx((packed, pivots, known(np.asarray(info, np.int32)))), out)


def old_lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:  # noqa: N803
    """torch.lu: LU, pivots and on request infos."""
    found = lu_factor_ex(A, pivot=pivot)
    return _write(found if get_infos else LuFactor(found[:2]), out)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True,  # noqa: N803
    *, out: Any = None,
) -> Any:  # fmt: skip
    """P, L, U from what lu_factor gives."""
    if LU_pivots._dtype is not int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype."
        )
    m, n = LU_data._shape[-2:]
    k = min(m, n)
    none = empty(0, dtype=LU_data._dtype)
    p = low = up = none
    if unpack_data:
        low = tril(narrow(LU_data, -1, 0, k), -1) + eye(m, k, dtype=LU_data._dtype)
        up = triu(narrow(LU_data, -2, 0, k))
    if unpack_pivots:
        p = known(permutation(look(LU_pivots), m).astype(LU_data._dtype.np))
    return _write(LuUnpack((p, low, up)), out)


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False,  # noqa: N803
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """X with A X = B (X A = B, A^H X = B), from lu_factor of A."""
    if not left:
        turned = lu_solve(LU, pivots, conj_transpose(B), adjoint=not adjoint)
        return _finish(conj_transpose(turned), out)
    p = known(permutation(look(pivots), LU._shape[-1]).astype(LU._dtype.np))
    if adjoint:
        half = apply(ops.solve_triangular, (conj_transpose(LU), B, False, False))
        half = apply(ops.solve_triangular, (conj_transpose(LU), half, True, True))
        return _finish(matmul(p, half), out)
    half = matmul(matrix_transpose(p), B)
    half = apply(ops.solve_triangular, (LU, half, False, True))
    return _finish(apply(ops.solve_triangular, (LU, half, True, False)), out)


def old_lu_solve(
    b: Tensor,
    LU_data: Tensor,
    LU_pivots: Tensor,
    *,
    out: Tensor | None = None,  # noqa: N803
) -> Tensor:
    """torch.lu_solve: the right hand side comes first."""
    return lu_solve(LU_data, LU_pivots, b, out=out)


# QR, eigenvalues, singular values ----------------------------------------------------------


def qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> Any:  # noqa: N803
    """Orthonormal Q and upper triangular R with Q R = A."""
    _need_matrix("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            "'r', or 'complete'"
        )
    m, n = A._shape[-2:]
    if mode == "r":
        r = apply(ops.qr, (A.detach(), "r"))
        return _write(Qr((empty(0, dtype=A._dtype), r)), out)
    if mode == "complete" and m > n:
        if A.requires_grad:
            raise RuntimeError("The QR decomposition is not differentiable when mode='complete' "
                               "and nrows > ncols")  # fmt: skip
        q, r = np.linalg.qr(look(A), "complete")
        return _write(Qr((known(q), known(r))), out)
    square = narrow(A, -1, 0, m) if n > m else A
    q, r = (apply(ops.qr, (square, part)) for part in ("q", "r"))
    if n > m:  # the other columns follow from Q
        r = cat([r, matmul(conj_transpose(q), narrow(A, -1, m, n - m))], -1)
    return _write(Qr((q, r)), out)


def old_qr(input: Tensor, some: bool = True, *, out: Any = None) -> Any:
    """torch.qr."""
    return qr(input, "reduced" if some else "complete", out=out)


def geqrf(input: Tensor, *, out: Any = None) -> Any:
    """LAPACK's packed Householder reflectors and their factors."""
    values = look(input)
    lead, (m, n) = values.shape[:-2], values.shape[-2:]
    flat = values.reshape((math.prod(lead), m, n))
    found = [np.linalg.qr(x, "raw") for x in flat]
    packed = np.array([h.T for h, _ in found], values.dtype).reshape(values.shape)
    tau = np.array([s for _, s in found], values.dtype).reshape((*lead, min(m, n)))
    return _write(Geqrf((known(packed), known(tau))), out)


def _is_upper(UPLO: str) -> bool:  # noqa: N803
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Any:  # noqa: N803
    """Eigenvalues (rising) and eigenvectors of Hermitian matrices."""
    _need_square("eigh", A)
    upper = _is_upper(UPLO)
    parts = (apply(ops.eigh, (A, part, upper)) for part in ("values", "vectors"))
    return _write(Eigh(tuple(parts)), out)


def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """Eigenvalues of Hermitian matrices."""
    _need_square("eigvalsh", A)
    return _finish(apply(ops.eigh, (A, "values", _is_upper(UPLO))), out)


def eig(A: Tensor, *, out: Any = None) -> Any:  # noqa: N803
    """Eigenvalues and eigenvectors (columns of norm 1) of square matrices: complex numbers."""
    _need_square("eig", A)
    return _write(Eig((apply(ops.eig, (A, "values")), apply(ops.eig, (A, "vectors")))), out)


def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """Eigenvalues of square matrices: complex numbers."""
    _need_square("eigvals", A)
    return _finish(apply(ops.eig, (A, "values")), out)


def svd(
    A: Tensor,
    full_matrices: bool = True,
    *,
    driver: str | None = None,
    out: Any = None,  # noqa: N803
) -> Any:
    """U, S, Vh with U diag(S) Vh = A. Gradients reach the first min(m, n) vectors only."""
    _need_matrix("svd", A)
    u, s, vh = (apply(ops.svd, (A, part)) for part in ("u", "s", "vh"))
    m, n = A._shape[-2:]
    if full_matrices and m != n:
        k = min(m, n)
        whole_u, _, whole_vh = np.linalg.svd(look(A), True)
        if m > n:
            u = cat([u, known(whole_u[..., k:])], -1)
        else:
            vh = cat([vh, known(whole_vh[..., k:, :])], -2)
    return _write(Svd((u, s, vh)), out)


def old_svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """torch.svd: gives V, not its adjoint."""
    if not compute_uv:
        m, n = input._shape[-2:]
        lead = input._shape[:-2]
        return OldSvd((zeros(*lead, m, m, dtype=input._dtype), svdvals(input),
                       zeros(*lead, n, n, dtype=input._dtype)))  # fmt: skip
    u, s, vh = svd(input, not some)
    return _write(OldSvd((u, s, conj_transpose(vh))), out)


def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """Singular values, falling."""
    _need_matrix("svdvals", A)
    return _finish(apply(ops.svd, (A, "s")), out)


LINALG: dict[str, Callable] = by_name(
    cholesky, cholesky_ex, lu, lu_factor, lu_factor_ex, lu_solve, qr, eig, eigvals, eigh,
    eigvalsh, svd, svdvals,
)  # fmt: skip
METHODS: dict[str, Callable] = {
    **by_name(cholesky_inverse, geqrf),
    "lu": old_lu, "lu_solve": old_lu_solve, "qr": old_qr, "svd": old_svd, "cholesky": old_cholesky,
}  # fmt: skip
FUNCTIONS: dict[str, Callable] = {**METHODS, "lu_unpack": lu_unpack}
