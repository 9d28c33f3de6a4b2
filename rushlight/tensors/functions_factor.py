"""torch.linalg: factorizations. The records run LAPACK on the host; what is here gives
PyTorch's signatures, named results, and gradients by composition of records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.autograd.mode import STATE
from rushlight.base.dtypes import int32
from rushlight.base.errors import LinAlgError
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import empty, eye, zeros
from rushlight.tensors.functions_complex import adjoint as conj_transpose
from rushlight.tensors.functions_diagonal import tril, triu
from rushlight.tensors.functions_linalg import matmul
from rushlight.tensors.functions_shape import cat
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_solve import cholesky_solve, need_matrix, need_square
from rushlight.tensors.functions_view import expand, matrix_transpose
from rushlight.tensors.interop import look
from rushlight.tensors.out import finish, write_out_all
from rushlight.tensors.results import result_class
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

Eig = result_class("linalg_eig", ("eigenvalues", "eigenvectors"))
Eigh = result_class("linalg_eigh", ("eigenvalues", "eigenvectors"))
Svd = result_class("linalg_svd", ("U", "S", "Vh"))
OldSvd = result_class("svd", ("U", "S", "V"))
Qr = result_class("linalg_qr", ("Q", "R"))
OldQr = result_class("qr", ("Q", "R"))
Lu = result_class("linalg_lu", ("P", "L", "U"))
LuFactor = result_class("linalg_lu_factor", ("LU", "pivots"))
LuFactorEx = result_class("linalg_lu_factor_ex", ("LU", "pivots", "info"))
LuUnpack = result_class("lu_unpack", ("P", "L", "U"))
CholeskyEx = result_class("linalg_cholesky_ex", ("L", "info"))
Lstsq = result_class("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))
LdlFactor = result_class("linalg_ldl_factor", ("LD", "pivots"))
LdlFactorEx = result_class("linalg_ldl_factor_ex", ("LD", "pivots", "info"))
Geqrf = result_class("geqrf", ("a", "tau"))


# Cholesky ----------------------------------------------------------------------------------


def cholesky(input: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower L with L L^H = input (or its adjoint)."""
    low = apply(ops.cholesky, (input,))
    return finish(conj_transpose(low) if upper else low, out)


def old_cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """torch.cholesky."""
    return cholesky(input, upper=upper, out=out)


def cholesky_ex(
    input: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """cholesky, and the first minor of each matrix that is not positive (0: all are)."""
    low = apply(ops.cholesky, (input, bool(check_errors)))
    info = apply(ops.cholesky_info, (input.detach(),))
    return write_out_all(out, CholeskyEx((conj_transpose(low) if upper else low, info)))


def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """The inverse of A, from its Cholesky factor."""
    need_square("cholesky_inverse", L)
    one = expand(eye(L._shape[-1], dtype=L._dtype), L._shape)
    return cholesky_solve(one, L, upper, out=out)


# LDL ---------------------------------------------------------------------------------------


def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:  # noqa: N803
    """L and D in one matrix, and the pivots of Bunch and Kaufman. The lower triangle counts."""
    need_square("ldl_factor", A)
    parts = tuple(apply(ops.ldl, (A.detach(), part, hermitian)) for part in ("ld", "pivots"))
    return write_out_all(out, LdlFactor(parts))


def ldl_factor_ex(
    A: Tensor,
    *,
    hermitian: bool = False,
    check_errors: bool = False,
    out: Any = None,  # noqa: N803
) -> Any:
    """ldl_factor, and the first zero on the diagonal of D (0: none)."""
    need_square("ldl_factor_ex", A)
    names = ("ld", "pivots", "info")
    parts = tuple(apply(ops.ldl, (A.detach(), part, hermitian)) for part in names)
    if check_errors and look(parts[2]).any():
        raise LinAlgError(f"linalg.ldl_factor_ex: D of matrix {np.argmax(look(parts[2]))} has a 0")
    return write_out_all(out, LdlFactorEx(parts))


def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False,  # noqa: N803
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """X with A X = B, from ldl_factor of A."""
    need_square("ldl_solve", LD)
    return finish(apply(ops.ldl_solve, (LD.detach(), pivots, B.detach(), hermitian)), out)


# LU ----------------------------------------------------------------------------------------


def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:  # noqa: N803
    """P, L, U with P L U = A."""
    need_matrix("lu", A)
    low, up = (apply(ops.lu, (A, part, bool(pivot))) for part in ("l", "u"))
    p = apply(ops.lu, (A.detach(), "p", True)) if pivot else empty(0, dtype=A._dtype)
    return write_out_all(out, Lu((p, low, up)))


def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:  # noqa: N803
    """L and U in one matrix, and the row changes counted from 1."""
    need_matrix("lu_factor", A)
    low, up = (apply(ops.lu, (A, part, bool(pivot))) for part in ("l", "u"))
    m, n = A._shape[-2:]
    low = tril(low, -1)
    if m > n:
        up = cat([up, zeros(*A._shape[:-2], m - n, n, dtype=A._dtype)], -2)
    elif n > m:
        low = cat([low, zeros(*A._shape[:-2], m, n - m, dtype=A._dtype)], -1)
    pivots = apply(ops.lu, (A.detach(), "pivots", bool(pivot)))
    return write_out_all(out, LuFactor((low + up, pivots)))


def lu_factor_ex(
    A: Tensor,
    *,
    pivot: bool = True,
    check_errors: bool = False,
    out: Any = None,  # noqa: N803
) -> Any:
    """lu_factor, and the first zero pivot of each matrix (0: none)."""
    packed, pivots = lu_factor(A, pivot=pivot)
    info = apply(ops.lu, (A.detach(), "info", bool(pivot)))
    if check_errors and look(info).any():
        raise LinAlgError("torch.linalg.lu_factor_ex: U has a 0 on its diagonal")
    return write_out_all(out, LuFactorEx((packed, pivots, info)))


def old_lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:  # noqa: N803
    """torch.lu: LU, pivots and on request infos."""
    found = lu_factor_ex(A, pivot=pivot)
    return write_out_all(out, found if get_infos else LuFactor(found[:2]))


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
        p = apply(ops.pivot_permutation, (LU_pivots, m)).to(LU_data._dtype)
    return write_out_all(out, LuUnpack((p, low, up)))


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False,  # noqa: N803
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """X with A X = B (X A = B, A^H X = B), from lu_factor of A."""
    if not left:
        turned = lu_solve(LU, pivots, conj_transpose(B), adjoint=not adjoint)
        return finish(conj_transpose(turned), out)
    p = apply(ops.pivot_permutation, (pivots, LU._shape[-1])).to(LU._dtype)
    if adjoint:
        half = apply(ops.solve_triangular, (conj_transpose(LU), B, False, False))
        half = apply(ops.solve_triangular, (conj_transpose(LU), half, True, True))
        return finish(matmul(p, half), out)
    half = matmul(matrix_transpose(p), B)
    half = apply(ops.solve_triangular, (LU, half, False, True))
    return finish(apply(ops.solve_triangular, (LU, half, True, False)), out)


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
    need_matrix("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            "'r', or 'complete'"
        )
    m, n = A._shape[-2:]
    if mode == "r":
        r = apply(ops.qr, (A.detach(), "r"))
        return write_out_all(out, Qr((empty(0, dtype=A._dtype), r)))
    if mode == "complete" and m > n:
        if A.requires_grad:
            raise RuntimeError("The QR decomposition is not differentiable when mode='complete' "
                               "and nrows > ncols")  # fmt: skip
        q, r = (apply(ops.whole_qr, (A.detach(), part)) for part in ("q", "r"))
        return write_out_all(out, Qr((q, r)))
    square = narrow(A, -1, 0, m) if n > m else A
    q, r = (apply(ops.qr, (square, part)) for part in ("q", "r"))
    if n > m:  # the other columns follow from Q
        r = cat([r, matmul(conj_transpose(q), narrow(A, -1, m, n - m))], -1)
    return write_out_all(out, Qr((q, r)))


def old_qr(input: Tensor, some: bool = True, *, out: Any = None) -> Any:
    """torch.qr."""
    return OldQr(qr(input, "reduced" if some else "complete", out=out))


def geqrf(input: Tensor, *, out: Any = None) -> Any:
    """LAPACK's packed Householder reflectors and their factors."""
    need_matrix("geqrf", input)
    parts = tuple(apply(ops.geqrf, (input.detach(), part)) for part in ("a", "tau"))
    return write_out_all(out, Geqrf(parts))


def _is_upper(UPLO: str) -> bool:  # noqa: N803
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Any:  # noqa: N803
    """Eigenvalues (rising) and eigenvectors of Hermitian matrices."""
    need_square("eigh", A)
    upper = _is_upper(UPLO)
    values = apply(ops.eigh, (A, _values_for(A, "values"), upper))
    return write_out_all(out, Eigh((values, apply(ops.eigh, (A, "vectors", upper)))))


def _values_for(x: Tensor, plain: str) -> str:
    """With vectors and a gradient: the values that none repeats (see ops/linalg.py)."""
    return "apart" if STATE.grad and x.requires_grad else plain


def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """Eigenvalues of Hermitian matrices."""
    need_square("eigvalsh", A)
    return finish(apply(ops.eigh, (A, "values", _is_upper(UPLO))), out)


def eig(A: Tensor, *, out: Any = None) -> Any:  # noqa: N803
    """Eigenvalues and eigenvectors (columns of norm 1) of square matrices: complex numbers."""
    need_square("eig", A)
    return write_out_all(out, Eig((apply(ops.eig, (A, "values")), apply(ops.eig, (A, "vectors")))))


def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """Eigenvalues of square matrices: complex numbers."""
    need_square("eigvals", A)
    return finish(apply(ops.eig, (A, "values")), out)


def svd(
    A: Tensor,
    full_matrices: bool = True,
    *,
    driver: str | None = None,
    out: Any = None,  # noqa: N803
) -> Any:
    """U, S, Vh with U diag(S) Vh = A. Gradients reach the first min(m, n) vectors only."""
    need_matrix("svd", A)
    u, s, vh = (apply(ops.svd, (A, part)) for part in ("u", _values_for(A, "s"), "vh"))
    m, n = A._shape[-2:]
    if full_matrices and m != n:
        k = min(m, n)
        whole = apply(ops.whole_svd, (A.detach(), "u" if m > n else "vh"))
        if m > n:
            u = cat([u, narrow(whole, -1, k, m - k)], -1)
        else:
            vh = cat([vh, narrow(whole, -2, k, n - k)], -2)
    return write_out_all(out, Svd((u, s, vh)))


def old_svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """torch.svd: gives V, not its adjoint."""
    if not compute_uv:
        m, n = input._shape[-2:]
        lead = input._shape[:-2]
        return OldSvd((zeros(*lead, m, m, dtype=input._dtype), svdvals(input),
                       zeros(*lead, n, n, dtype=input._dtype)))  # fmt: skip
    u, s, vh = svd(input, not some)
    return write_out_all(out, OldSvd((u, s, conj_transpose(vh))))


def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """Singular values, falling."""
    need_matrix("svdvals", A)
    return finish(apply(ops.svd, (A, "s")), out)


LINALG: dict[str, Callable] = by_name(
    cholesky, cholesky_ex, ldl_factor, ldl_factor_ex, ldl_solve, lu, lu_factor,
    lu_factor_ex, lu_solve, qr, eig, eigvals, eigh, eigvalsh, svd, svdvals,
)  # fmt: skip
METHODS: dict[str, Callable] = {
    **by_name(cholesky_inverse, geqrf),
    "lu": old_lu, "lu_solve": old_lu_solve, "qr": old_qr, "svd": old_svd, "cholesky": old_cholesky,
}  # fmt: skip
FUNCTIONS: dict[str, Callable] = {**METHODS, "lu_unpack": lu_unpack}
