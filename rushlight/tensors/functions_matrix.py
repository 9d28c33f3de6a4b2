"""torch.linalg: norms, ranks, least squares, and products of many matrices.

Everything is composed of records, so gradients and second gradients follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import DType, int64
from rushlight.base.errors import LinAlgError
from rushlight.ir.arguments import wrap_dim
from rushlight.tensors.apply import apply
from rushlight.tensors.autocast_rules import follow_linalg
from rushlight.tensors.creation import empty, eye
from rushlight.tensors.forms import linked
from rushlight.tensors.functions_complex import adjoint, conj
from rushlight.tensors.functions_diagonal import tril
from rushlight.tensors.functions_factor import (
    LINALG as FACTOR_LINALG,
)
from rushlight.tensors.functions_factor import Lstsq, eigvalsh, svdvals
from rushlight.tensors.functions_linalg import LINALG as PRODUCTS
from rushlight.tensors.functions_linalg import matmul
from rushlight.tensors.functions_reduce import amax, amin, cast_to, vector_norm
from rushlight.tensors.functions_reduce import norm as plain_norm
from rushlight.tensors.functions_reduce import sum as sum_
from rushlight.tensors.functions_shape import stack
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_solve import (
    LINALG as SOLVE_LINALG,
)
from rushlight.tensors.functions_solve import is_vector_rhs, need_matrix, need_square
from rushlight.tensors.functions_vander import vander
from rushlight.tensors.functions_view import (
    movedim,
    permute,
    reshape,
    squeeze,
    unsqueeze,
)
from rushlight.tensors.interop import look, look_at_all
from rushlight.tensors.out import finish
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor


def _need_float(name: str, x: Tensor) -> None:
    if not x._dtype.is_inexact:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. "
            f"Got {x._dtype.scalar_name}"
        )


# Norms -------------------------------------------------------------------------------------


def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,  # noqa: N803
    dtype: DType | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The norm of each matrix: fro, nuc, 1, -1, 2, -2, inf, -inf."""
    _need_float("linalg.matrix_norm", A)
    if A.dim() < 2:
        raise RuntimeError(
            "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."
        )
    A = cast_to(A, dtype)  # noqa: N806
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {tuple(dim)}")
    rows, columns = (wrap_dim(d, A.dim()) for d in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, out=out)
    if ord in ("nuc", 2, -2):
        values = svdvals(permute(A, [d for d in range(A.dim()) if d not in (rows, columns)]
                                 + [rows, columns]))  # fmt: skip
        pick = {"nuc": sum_, 2: amax, -2: amin}[ord]
        result = pick(values, -1)
        if keepdim:
            for d in sorted((rows, columns)):
                result = unsqueeze(result, d)
        return finish(result, out)
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = vector_norm(A, 1, inner, True)
    result = (amax if ord > 0 else amin)(sums, outer, True)
    return finish(result if keepdim else squeeze(result, (rows, columns)), out)


def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *,  # noqa: N803
    dtype: DType | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """vector_norm or matrix_norm, by ord and dim."""
    _need_float("linalg.norm", A)
    pair = dim is not None and not isinstance(dim, int) and len(dim) == 2
    if ord is not None and (pair or (dim is None and A.dim() == 2)):
        return matrix_norm(A, ord, dim or (-2, -1), keepdim, dtype=dtype, out=out)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: Order {ord} needs two dims, got dim={dim} and "
                           f"{A.dim()} dimensions")  # fmt: skip
    if ord is not None and dim is None and A.dim() > 1:
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{A.dim()}D."
        )
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """The condition number."""
    need_matrix("cond", A)
    if p in (None, 2, -2):
        values = svdvals(A)
        first, last = values[..., 0], values[..., -1]
        return finish(last / first if p == -2 else first / last, out)
    need_square("cond", A)
    return finish(matrix_norm(A, p) * matrix_norm(apply(ops.inverse, (A,)), p), out)


# Rank and pseudo-inverse -------------------------------------------------------------------


def _limits(x: Tensor, atol: Any, rtol: Any, rcond: Any = None) -> tuple[Any, Any]:
    """PyTorch's defaults: a given atol alone switches the relative one off."""
    rtol = rcond if rtol is None else rtol
    if rtol is None:
        eps = np.finfo(x._dtype.np).eps
        given = atol is not None and (isinstance(atol, Tensor) or atol > 0)
        rtol = 0.0 if given else float(eps) * max(x._shape[-2:])
    return 0.0 if atol is None else atol, rtol


def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None,  # noqa: N803
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """How many singular values are above max(atol, rtol * largest)."""
    need_matrix("matrix_rank", A)
    A = A.detach()  # noqa: N806
    if tol is not None:
        atol, rtol = tol, 0.0
    atol, rtol = _limits(A, atol, rtol)
    values = apply(ops.abs_, (eigvalsh(A),)) if hermitian else svdvals(A)
    if not values._shape[-1] or not values.numel():
        return finish(sum_(values > 0, -1), out)
    top = unsqueeze(amax(values, -1), -1)
    low, share = (unsqueeze(v, -1) if isinstance(v, Tensor) else v for v in (atol, rtol))
    limit = apply(ops.maximum, (top * share, low if isinstance(low, Tensor) else top * 0 + low))
    return finish(sum_(values > limit, -1), out)


def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None,  # noqa: N803
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The pseudo-inverse."""
    need_matrix("pinv", A)
    atol, rtol = (
        look(v).max().item() if isinstance(v, Tensor) and v.numel() == 1 else v
        for v in _limits(A, atol, rtol, rcond)
    )
    if isinstance(atol, Tensor) or isinstance(rtol, Tensor):
        parts = [pinv(a, atol=_item(atol, i), rtol=_item(rtol, i)) for i, a in enumerate(A)]
        return finish(stack(parts), out)
    return finish(apply(ops.pinv, (A, float(atol), float(rtol), bool(hermitian))), out)


def _item(value: Any, i: int) -> Any:
    return value[i] if isinstance(value, Tensor) and value.dim() else value


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """torch.pinverse."""
    return pinv(input, rcond)


def lstsq(
    A: Tensor,
    B: Tensor,
    rcond: Any = None,
    *,
    driver: str | None = None,  # noqa: N803
) -> Any:
    """X that makes |A X - B| least, the squared residuals, the rank, the singular values."""
    need_matrix("lstsq", A)
    driver = driver or "gelsy"
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), "
            f"got {driver}"
        )
    vector = is_vector_rhs(A, B)
    right = unsqueeze(B, -1) if vector else B
    m, n = A._shape[-2:]
    limit = np.finfo(A._dtype.np).eps * max(m, n) if rcond is None else float(rcond)
    x = matmul(pinv(A, rtol=0.0 if driver == "gels" else limit), right)
    rank = empty(0, dtype=int64)
    if driver != "gels":
        rank = matrix_rank(A, rtol=limit)
    part = A._dtype.to_real()
    values = svdvals(A.detach()) if driver in ("gelsd", "gelss") else empty(0, dtype=part)
    residuals = linked(linked(empty(0, dtype=part), A), B)
    if m > n and driver != "gelsy" and (driver == "gels" or (look_at_all(rank) == n).all()):
        residuals = sum_(apply(ops.abs_, (matmul(A, x) - right,)) ** 2, -2)
    return Lstsq((squeeze(x, -1) if vector else x, residuals, rank, values))


# Products ----------------------------------------------------------------------------------


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of matrices in the cheapest order; the ends may be vectors."""
    items = list(tensors)
    if len(items) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(items)}")
    first, last = items[0].dim() == 1, items[-1].dim() == 1
    if first:
        items[0] = unsqueeze(items[0], 0)
    if last:
        items[-1] = unsqueeze(items[-1], -1)
    for i, x in enumerate(items):
        if x.dim() != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {x.dim()}D")
    for i, (a, b) in enumerate(zip(items, items[1:], strict=False)):
        if a._shape[1] != b._shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes "
                f"{list(a._shape)} and {list(b._shape)} cannot be multiplied"
            )
    result = _product(items, _order([x._shape[0] for x in items] + [items[-1]._shape[1]]))
    if first:
        result = squeeze(result, 0)
    return finish(squeeze(result, -1) if last else result, out)


def _order(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to cut each run of matrices (dynamic programming over run lengths)."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            prices = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], cut[i, j] = min(prices)
    return cut


def _product(items: list[Tensor], cut: dict[tuple[int, int], int]) -> Tensor:
    def run(i: int, j: int) -> Tensor:
        return items[i] if i == j else matmul(run(i, cut[i, j]), run(cut[i, j] + 1, j))

    return run(0, len(items) - 1)


def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """The inverse of A seen as a matrix: its first ind dimensions by the others."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    rows, columns = math.prod(A._shape[:ind]), math.prod(A._shape[ind:])
    if rows != columns:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {columns} != {rows}"
        )
    back = apply(ops.inverse, (reshape(A, (rows, columns)),))
    return finish(reshape(back, (*A._shape[ind:], *A._shape[:ind])), out)


def tensorsolve(A: Tensor, B: Tensor, dims: Any = None, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """X with tensordot(A, X, X.ndim) = B."""
    if dims is not None:
        A = movedim(A, list(dims), list(range(A.dim() - len(dims), A.dim())))  # noqa: N806
    shape = A._shape[B.dim() :]
    size = math.prod(shape)
    if size != B.numel():
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {size} != {B.numel()}"
        )
    flat = apply(ops.solve, (reshape(A, (size, size)), reshape(B, (size, 1))))
    return finish(reshape(flat, shape), out)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The dot product of vectors along dim, the first conjugated."""
    return finish(sum_(conj(x) * y, dim), out)


def matrix_exp(A: Tensor) -> Tensor:  # noqa: N803
    """The matrix exponential: a Taylor series of degree 18 of A / 2^s, squared s times."""
    need_square("matrix_exp", A)
    _need_float("linalg.matrix_exp", A)
    if not A.numel():
        return A.clone()
    size = float(np.abs(look_at_all(A.detach())).sum(-2, dtype=np.float64).max())
    squarings = max(0, math.ceil(math.log2(size))) if 0 < size < math.inf else 0
    wide = A.to(A._dtype.compute)
    x = wide / 2.0**squarings
    one = eye(A._shape[-1], dtype=wide._dtype)
    result = one + x / 18
    for k in range(17, 0, -1):
        result = one + matmul(x, result) / k
    for _ in range(squarings):
        result = matmul(result, result)
    return result.to(A._dtype)


def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """The first columns of the product of reflectors I - tau v v^H, v from the columns of A."""
    need_matrix("householder_product", A)
    m, n = A._shape[-2:]
    if m < n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to "
            "input.shape[-1]"
        )
    result = _reflect(A, tau, eye(m, n, dtype=A._dtype), reverse=True)
    return finish(linked(linked(result, A), tau) if not tau.numel() else result, out)


def _reflect(A: Tensor, tau: Tensor, x: Tensor, reverse: bool) -> Tensor:  # noqa: N803
    """H_1 H_2 ... H_k x, or the adjoint of that product times x."""
    tau = tau if reverse else conj(tau)
    m, count = A._shape[-2], tau._shape[-1]
    low = tril(narrow(A, -1, 0, count), -1) + eye(m, count, dtype=A._dtype)
    for i in reversed(range(count)) if reverse else range(count):
        v = narrow(low, -1, i, 1)
        scale = unsqueeze(narrow(tau, -1, i, 1), -1)
        x = x - matmul(v * scale, matmul(adjoint(v), x))
    return x


def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Q other, Q^H other, other Q or other Q^H, with Q from geqrf."""
    if input.dim() < 2:
        raise RuntimeError("torch.ormqr: input must have at least 2 dimensions.")
    if left:
        return finish(_reflect(input, tau, other, reverse=not transpose), out)
    turned = _reflect(input, tau, adjoint(other), reverse=transpose)
    return finish(adjoint(turned), out)


LINALG: dict[str, Callable] = {
    **PRODUCTS, **SOLVE_LINALG, **FACTOR_LINALG,
    **by_name(
        matrix_norm, norm, cond, matrix_rank, pinv, lstsq, multi_dot, tensorinv, tensorsolve,
        vander, vecdot, matrix_exp, householder_product,
    ),
}  # fmt: skip
LINALG = {name: follow_linalg(function, name) for name, function in LINALG.items()}
LINALG["LinAlgError"] = LinAlgError


def old_norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False,
    out: Tensor | None = None, dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """torch.norm: a vector norm over dim; fro and nuc are matrix norms."""
    if p == "nuc":
        return matrix_norm(input, "nuc", dim or (-2, -1), keepdim, dtype=dtype, out=out)
    return plain_norm(input, p, dim, keepdim, out, dtype)


FUNCTIONS: dict[str, Callable] = {
    "norm": old_norm,
    "pinverse": pinverse, "matrix_exp": matrix_exp, "ormqr": ormqr, "orgqr": householder_product,
}  # fmt: skip
METHODS = dict(FUNCTIONS)
