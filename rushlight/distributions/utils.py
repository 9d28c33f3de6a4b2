"""Helpers of distributions: arguments of one shape, probabilities and logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "_standard_normal", "_sum_rightmost", "broadcast_all", "clamp_probs", "lazy_property",
    "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060
LOG_2PI = math.log(2 * math.pi)


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Numbers and tensors as tensors of one shape. Numbers take the dtype of the tensors, and
    their device."""
    if not all(isinstance(v, torch.Tensor | int | float | bool) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    like = tensors[0] if tensors else torch.zeros(())
    made = [v if isinstance(v, torch.Tensor) else like.new_tensor(v) for v in values]
    return tuple(torch.broadcast_tensors(*made))


def standard_normal(shape: Any, dtype: Any, device: Any = None) -> Any:
    """Independent normal numbers."""
    return torch.randn(shape, dtype=dtype, device=device)


_standard_normal = standard_normal


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dimensions."""
    if dim == 0:
        return value
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


_sum_rightmost = sum_rightmost


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept off 0 and 1, so that their logits are finite."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """sigmoid, or softmax over the last dimension."""
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, dim=-1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """The inverse of `logits_to_probs`."""
    kept = clamp_probs(probs)
    return torch.log(kept) - torch.log1p(-kept) if is_binary else torch.log(kept)


class lazy_property:  # noqa: N801
    """A property that is computed when it is first asked for, and kept as a plain attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The lower triangle of matrices, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, cols = torch.tril_indices(n, n, diag, device=mat.device).unbind(0)
    return mat[..., rows, cols]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The inverse of `tril_matrix_to_vec`; zeros above the diagonal."""
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1))
         ** 0.5) / 2  # fmt: skip
    if not round(n) - n < torch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    size = int(round(n))
    rows, cols = torch.tril_indices(size, size, diag, device=vec.device).unbind(0)
    mat = vec.new_zeros(vec.shape[:-1] + (size, size))
    mat[..., rows, cols] = vec
    return mat
