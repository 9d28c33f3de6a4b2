"""torch.linalg: inverses, solving, determinants. The records run LAPACK on the host; what is here
gives PyTorch's signatures and named results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight import ops
from rushlight.tensors.apply import apply
from rushlight.tensors.functions_view import expand, matrix_transpose, squeeze, unsqueeze
from rushlight.tensors.out import finish, write_out_all
from rushlight.tensors.results import result_class
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

InvEx = result_class("linalg_inv_ex", ("inverse", "info"))
SolveEx = result_class("linalg_solve_ex", ("result", "info"))
Slogdet = result_class("linalg_slogdet", ("sign", "logabsdet"))
OldSlogdet = result_class("slogdet", ("sign", "logabsdet"))
Triangular = result_class("triangular_solve", ("solution", "cloned_coefficient"))


def need_square(name: str, x: Tensor) -> None:
    if x.dim() < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    if x._shape[-1] != x._shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: A must be batches of square matrices, but they are "
            f"{x._shape[-2]} by {x._shape[-1]} matrices"
        )


def need_matrix(name: str, x: Tensor) -> None:
    if x.dim() < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")


def _lu_info(x: Tensor) -> Tensor:
    """The first zero pivot of each matrix (0: none)."""
    return apply(ops.lu, (x.detach(), "info", True))


def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """The inverse of each matrix."""
    return finish(apply(ops.inverse, (A,)), out)


def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> Any:  # noqa: N803
    """The inverse (NaN where there is none), and the first zero pivot (0: none)."""
    need_square("inv_ex", A)
    return write_out_all(out, InvEx((apply(ops.inverse, (A, bool(check_errors))), _lu_info(A))))


def is_vector_rhs(A: Tensor, B: Tensor) -> bool:  # noqa: N803
    """numpy's old rule: b is a vector when it has one dimension less than a and its batch."""
    return B.dim() == 1 or (A.dim() - 1 == B.dim() and B._shape == A._shape[:-1])


def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """X with A X = B (or X A = B with left=False)."""
    return finish(_solved(A, B, left, True), out)


def _solved(A: Tensor, B: Tensor, left: bool, check: bool) -> Tensor:  # noqa: N803
    need_square("solve", A)
    vector = left and is_vector_rhs(A, B)
    if not vector and B.dim() < 2:
        raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side is not "
                           "supported for left=False")  # fmt: skip
    rows = B._shape[-1] if vector or not left else B._shape[-2]
    if rows != A._shape[-1]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({A._shape[-2]}x{A._shape[-1]} and "
            f"{'x'.join(map(str, B._shape[-2:]))})"
        )
    if vector:
        return squeeze(apply(ops.solve, (A, unsqueeze(B, -1), check)), -1)
    if left:
        return apply(ops.solve, (A, B, check))
    turned = apply(ops.solve, (matrix_transpose(A), matrix_transpose(B), check))
    return matrix_transpose(turned)


def solve_ex(
    A: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: Any = None,  # noqa: N803
) -> Any:
    """solve (NaN where A is singular), and A's first zero pivot (0: none)."""
    return write_out_all(out, SolveEx((_solved(A, B, left, bool(check_errors)), _lu_info(A))))


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False,  # noqa: N803
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """X with A X = B, where only one triangle of A is read."""
    need_square("solve_triangular", A)
    if left:
        return finish(apply(ops.solve_triangular, (A, B, bool(upper), bool(unitriangular))), out)
    args = (matrix_transpose(A), matrix_transpose(B), not upper, bool(unitriangular))
    return finish(matrix_transpose(apply(ops.solve_triangular, args)), out)


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,  # noqa: N803
    unitriangular: bool = False, *, out: Any = None,
) -> Any:  # fmt: skip
    """The older form: (solution, a copy of A)."""
    a = matrix_transpose(A) if transpose else A
    solution = solve_triangular(a, b, upper=upper != transpose, unitriangular=unitriangular)
    lead = solution._shape[:-2]
    return write_out_all(out, Triangular((solution, expand(A, *lead, *A._shape[-2:]).clone())))


def cholesky_solve(
    B: Tensor,
    L: Tensor,
    upper: bool = False,
    *,
    out: Tensor | None = None,  # noqa: N803
) -> Tensor:
    """X with A X = B, from the Cholesky factor of A."""
    return finish(apply(ops.cholesky_solve, (B, L, bool(upper))), out)


def slogdet(A: Tensor, *, out: Any = None) -> Any:  # noqa: N803
    """The sign and the logarithm of the size of the determinant."""
    need_square("slogdet", A)
    return write_out_all(out, Slogdet((apply(ops.slogdet_sign, (A,)), apply(ops.logabsdet, (A,)))))


def old_slogdet(input: Tensor, *, out: Any = None) -> Any:
    """torch.slogdet: the same, by another class's name."""
    return OldSlogdet(slogdet(input, out=out))


def logdet(input: Tensor) -> Tensor:
    """log of the determinant; NaN where a real one is negative."""
    sign, size = slogdet(input)
    if sign._dtype.is_complex:
        return apply(ops.add, (apply(ops.log, (sign,)), size))
    return apply(ops.where, (sign < 0, math.nan, size))


LINALG: dict[str, Callable] = by_name(inv, inv_ex, solve, solve_ex, solve_triangular, slogdet)
FUNCTIONS: dict[str, Callable] = {
    **by_name(triangular_solve, cholesky_solve, logdet), "inverse": inv, "slogdet": old_slogdet,
}  # fmt: skip
METHODS = FUNCTIONS
