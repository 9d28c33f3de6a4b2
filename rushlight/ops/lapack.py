"""What the host's LAPACK says of a matrix that it cannot factor, in PyTorch's words.

In: arrays [..., N, N]. Out: results; `info` counted from 1 (0: nothing is wrong), as LAPACK's; or a
LinAlgError. With `check=False` what cannot be had is NaN (or 0 behind a Cholesky factor's last good
row) and nothing is raised: the `_ex` functions ask for `info` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.errors import LinAlgError


def lu_array(x: np.ndarray, pivot: bool) -> tuple[np.ndarray, np.ndarray]:
    """The packed factors and the row changes (LAPACK's, counted from 1) of each matrix."""
    a = np.array(x)
    m, n = a.shape[-2:]
    flat = a.reshape((int(np.prod(a.shape[:-2], dtype=int)), m, n))
    each = np.arange(len(flat))
    pivots = np.zeros((len(flat), min(m, n)), np.int32)
    for i in range(min(m, n)):
        at = i + np.argmax(_pivot_size(flat[:, i:, i]), 1) if pivot else np.full(len(flat), i)
        pivots[:, i] = at + 1
        flat[each, i], flat[each, at] = flat[each, at].copy(), flat[each, i].copy()
        top = flat[:, i : i + 1, i]
        with np.errstate(all="ignore"):
            flat[:, i + 1 :, i] = np.where(top == 0, flat[:, i + 1 :, i], flat[:, i + 1 :, i] / top)
        flat[:, i + 1 :, i + 1 :] -= flat[:, i + 1 :, i : i + 1] * flat[:, i : i + 1, i + 1 :]
    return flat.reshape(a.shape), pivots.reshape((*a.shape[:-2], min(m, n)))


def _pivot_size(x: np.ndarray) -> np.ndarray:
    """What LAPACK compares: of complex numbers, the sum of the sizes of the parts."""
    return np.abs(np.real(x)) + np.abs(np.imag(x)) if x.dtype.kind == "c" else np.abs(x)


def zero_pivot(x: np.ndarray) -> np.ndarray:
    """info of an LU factorization: the first zero on U's diagonal."""
    zero = np.diagonal(lu_array(x, True)[0], axis1=-2, axis2=-1) == 0
    if not zero.shape[-1]:
        return np.zeros(zero.shape[:-1], np.int32)
    return np.where(zero.any(-1), zero.argmax(-1) + 1, 0).astype(np.int32)


def bad_minor(x: np.ndarray) -> np.ndarray:
    """info of a Cholesky factorization: the order of the first minor that is not positive."""
    flat = x.reshape((int(np.prod(x.shape[:-2], dtype=int)), *x.shape[-2:]))
    found = [0 if _is_positive(a) else _first_bad(a) for a in flat]
    return np.array(found, np.int32).reshape(x.shape[:-2])


def _is_positive(a: np.ndarray) -> bool:
    try:
        return bool(np.isfinite(np.linalg.cholesky(a)).all())
    except np.linalg.LinAlgError:
        return False


def _first_bad(a: np.ndarray) -> int:
    """By halving: once a minor is not positive, all larger ones are not."""
    low, high = 0, len(a)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_positive(a[:middle, :middle]) else (low, middle)
    return high


def _refuse(name: str, info: np.ndarray, text: str) -> None:
    if not info.any():
        return
    batch = f"(Batch element {int(np.argmax(info != 0))}): " if info.ndim else ""
    first = int(info.reshape(-1)[int(np.argmax(info.reshape(-1) != 0))])
    raise LinAlgError(f"{name}: {batch}{text.format(first)}")


def inverse(x: np.ndarray, check: bool = True) -> np.ndarray:
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        if check:
            _refuse("linalg.inv", zero_pivot(x), "The diagonal element {} is zero, the inversion "
                    "could not be completed because the input matrix is singular.")  # fmt: skip
        return _each(np.linalg.inv, x)


def solve(a: np.ndarray, b: np.ndarray, check: bool = True) -> np.ndarray:
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        if check:
            _refuse("torch.linalg.solve", zero_pivot(a),
                    "The solver failed because the input matrix is singular.")  # fmt: skip
        return _each(np.linalg.inv, a) @ b


def cholesky(x: np.ndarray, check: bool = True) -> np.ndarray:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        info = bad_minor(x)
        if check:
            _refuse("linalg.cholesky", info, "The factorization could not be completed because "
                    "the input is not positive-definite (the leading minor of order {} is not "
                    "positive-definite).")  # fmt: skip
    result = np.zeros_like(x)
    for at in np.ndindex(x.shape[:-2]):
        good = x.shape[-1] if not info[at] else int(info[at]) - 1
        result[at][:good, :good] = np.linalg.cholesky(x[at][:good, :good])
    return result


def _each(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Matrix by matrix; NaN where the function refuses."""
    result: Any = np.full_like(x, np.nan)
    for at in np.ndindex(x.shape[:-2]):
        try:
            result[at] = function(x[at])
        except np.linalg.LinAlgError:
            continue
    return result


def svd(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    try:
        return tuple(np.linalg.svd(x, full_matrices=False))  # type: ignore[return-value]
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.svd: The algorithm failed to converge because the input matrix contained "
            "non-finite values."
        ) from None
