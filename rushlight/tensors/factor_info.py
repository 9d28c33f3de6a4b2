"""The `info` of linalg.cholesky_ex, inv_ex and solve_ex: which matrices cannot be factored, and
where it stops.

A factorization of a matrix that has none raises; these functions promise not to. So they look at
the matrices first, and give the lazy factorization the identity in place of the bad ones. What they
give for a bad matrix is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import bool_
from rushlight.base.errors import LinAlgError
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import eye, full_like
from rushlight.tensors.functions_select import known
from rushlight.tensors.functions_view import expand
from rushlight.tensors.interop import look
from rushlight.tensors.tensor import Tensor


def bad_minor(matrix: np.ndarray) -> int:
    """0 for a positive definite matrix, else the order of the first leading minor that is not."""
    try:
        np.linalg.cholesky(matrix)
        return 0
    except np.linalg.LinAlgError:
        pass
    for order in range(1, len(matrix)):
        try:
            np.linalg.cholesky(matrix[:order, :order])
        except np.linalg.LinAlgError:
            return order
    return len(matrix)


def zero_pivot(matrix: np.ndarray) -> int:
    """0 for a matrix with an inverse, else the number of the first pivot that is exactly 0."""
    try:
        np.linalg.inv(matrix)
        return 0
    except np.linalg.LinAlgError:
        pass
    left = matrix.astype(np.float64 if matrix.dtype.kind == "f" else matrix.dtype)
    for column in range(len(left)):
        best = column + int(np.abs(left[column:, column]).argmax())
        if left[best, column] == 0:
            return column + 1
        left[[column, best]] = left[[best, column]]
        factors = left[column + 1 :, column] / left[column, column]
        left[column + 1 :] -= factors[:, None] * left[column]
    return len(left)


def checked(x: Tensor, find: Callable[[np.ndarray], int]) -> tuple[Tensor, Tensor, Tensor | None]:
    """(x with the identity for bad matrices, info, which are bad or None if none is)."""
    values = look(x)
    size = values.shape[-2:]
    found = [find(matrix) for matrix in values.reshape(-1, *size)] if values.size else []
    info = np.array(found, np.int32).reshape(values.shape[:-2])
    if not info.any():
        return x, known(info), None
    bad = apply(ops.cast, (known(info), bool_))
    one = expand(eye(size[0], dtype=x._dtype), x._shape)
    return apply(ops.where, (_wide(bad, x), one, x)), known(info), bad


def _wide(bad: Tensor, like: Tensor) -> Tensor:
    return expand(apply(ops.reshape, (bad, (*bad._shape, 1, 1))), like._shape)


def spoil(result: Tensor, bad: Tensor | None) -> Tensor:
    """The result with NaN for bad matrices (or vectors)."""
    if bad is None:
        return result
    shape = (*bad._shape, *(1,) * (result.dim() - bad.dim()))
    wide = expand(apply(ops.reshape, (bad, shape)), result._shape)
    return apply(ops.where, (wide, full_like(result, math.nan), result))


ERRORS = {
    "cholesky": "The factorization could not be completed because the input is not "
    "positive-definite (the leading minor of order {} is not positive-definite).",
    "inv": "The diagonal element {} is zero, the inversion could not be completed because the "
    "input matrix is singular.",
    "solve": "The solver failed because the input matrix is singular.",
}


def raise_for(name: str, info: Tensor) -> None:
    """With check_errors=True: LinAlgError for the first bad matrix."""
    values = look(info).reshape(-1)
    at = int(np.argmax(values != 0)) if values.size else 0
    if values.size and values[at]:
        batch = f"(Batch element {at}): " if info.dim() else ""
        raise LinAlgError(f"linalg.{name}: {batch}{ERRORS[name].format(values[at])}")
