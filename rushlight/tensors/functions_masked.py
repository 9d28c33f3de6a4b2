"""torch.masked: reductions and normalizations over the elements that a mask keeps.

In: a tensor and a bool mask (None keeps all). Out: PyTorch's values: the identity of the operation
where a slice has no element. A masked element gets no gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import DType, int64
from rushlight.tensors import functional_act as act
from rushlight.tensors import functions_reduce as reduce
from rushlight.tensors.apply import apply
from rushlight.tensors.functions_complex import conj
from rushlight.tensors.functions_view import expand, reshape
from rushlight.tensors.numbers import Defaults
from rushlight.tensors.tensor import Tensor


def _where(mask: Tensor, x: Any, fill: Any) -> Tensor:
    return apply(ops.where, (mask, x, fill))


def _mask_of(input: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask in the input's shape."""
    if mask is None:
        return None
    if mask._dtype.name != "bool":
        mask = mask != 0
    return mask if mask._shape == input._shape else expand(mask, input._shape)


def _filled(input: Tensor, mask: Tensor | None, fill: Any) -> Tensor:
    shown = _mask_of(input, mask)
    return input if shown is None else _where(shown, input, fill)


def _extremes(dtype: DType) -> tuple[Any, Any]:
    if dtype.kind == "float":
        return -math.inf, math.inf
    limits = np.iinfo(dtype.np)
    return int(limits.min), int(limits.max)


def _all_dims(dim: Any) -> Any:
    return None if dim is None or dim == () else dim


def sum(input: Tensor, dim: Any = None, *, keepdim: bool | None = False,
        dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The sum of what the mask keeps."""
    return reduce.sum(_filled(input, mask, 0), _all_dims(dim), bool(keepdim), dtype=dtype)


def prod(input: Tensor, dim: Any = None, *, keepdim: bool | None = False,
         dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The product of what the mask keeps."""
    x = reduce.cast_to(_filled(input, mask, 1), dtype)
    dims = range(x.dim()) if _all_dims(dim) is None else [dim] if isinstance(dim, int) else dim
    if not x.dim():
        return reduce.prod(x)
    for d in sorted((d % x.dim() for d in dims), reverse=True):
        x = reduce.prod(x, d, bool(keepdim))
    return x


def amax(input: Tensor, dim: Any = None, *, keepdim: bool | None = False,
         dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The largest of what the mask keeps."""
    x = reduce.cast_to(input, dtype)
    return reduce.amax(_filled(x, mask, _extremes(x._dtype)[0]), dim, bool(keepdim))


def amin(input: Tensor, dim: Any = None, *, keepdim: bool | None = False,
         dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The smallest of what the mask keeps."""
    x = reduce.cast_to(input, dtype)
    return reduce.amin(_filled(x, mask, _extremes(x._dtype)[1]), dim, bool(keepdim))


def argmax(input: Tensor, dim: int | None = None, *, keepdim: bool | None = False,
           dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Where the largest of what the mask keeps is."""
    x = reduce.cast_to(input, dtype)
    at = reduce.argmax(_filled(x, mask, _extremes(x._dtype)[0]), dim, bool(keepdim))
    return at.to(x._dtype)  # PyTorch's dtype


def argmin(input: Tensor, dim: int | None = None, *, keepdim: bool | None = False,
           dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Where the smallest of what the mask keeps is."""
    x = reduce.cast_to(input, dtype)
    at = reduce.argmin(_filled(x, mask, _extremes(x._dtype)[1]), dim, bool(keepdim))
    return at.to(x._dtype)  # PyTorch's dtype


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None,
           mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Running sums of what the mask keeps."""
    return reduce.cumsum(_filled(input, mask, 0), dim, dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None,
            mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Running products of what the mask keeps."""
    return reduce.cumprod(_filled(input, mask, 1), dim, dtype=dtype)


def _count(input: Tensor, dim: Any, keepdim: Any, mask: Tensor | None) -> Tensor:
    shown = _mask_of(input, mask)
    ones = (input.detach() == input.detach()) | True
    return reduce.sum(ones if shown is None else shown, _all_dims(dim), bool(keepdim), dtype=int64)


def mean(input: Tensor, dim: Any = None, *, keepdim: bool | None = False,
         dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The mean of what the mask keeps."""
    x = reduce.cast_to(input, dtype)
    if x._dtype.kind == "bool":
        raise TypeError("masked.mean: the input must not be bool; give dtype=")
    total = sum(x, dim, keepdim=keepdim, mask=mask)
    return total / _count(x, dim, keepdim, mask)


def _spread(input: Tensor, dim: Any, correction: float, keepdim: Any, dtype: Any, mask: Any,
            root: bool) -> Tensor:  # fmt: skip
    x = reduce.cast_to(input, dtype)
    if not x._dtype.is_inexact:
        x = x.float()
    count = _count(x, dim, True, mask)
    off = x - sum(x, dim, keepdim=True, mask=mask) / count
    total = sum(off * conj(off), dim, keepdim=keepdim, mask=mask)
    count = count if keepdim else reshape(count, total._shape)
    if correction:
        count = (count - correction).clamp(min=0)
    result = reduce.cast_to(total / count, x._dtype)
    return apply(ops.sqrt, (result,)) if root else result


def var(input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
        correction: float | None = None, keepdim: bool | None = False,
        dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The variance of what the mask keeps."""
    unbiased = correction if correction is not None else unbiased is None or unbiased
    return _spread(input, dim, float(unbiased), keepdim, dtype, mask, False)


def std(input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
        correction: float | None = None, keepdim: bool | None = False,
        dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The standard deviation of what the mask keeps."""
    unbiased = correction if correction is not None else unbiased is None or unbiased
    return _spread(input, dim, float(unbiased), keepdim, dtype, mask, True)


def logsumexp(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: DType | None = None,
              mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """log of the sum of exponentials of what the mask keeps."""
    dims = tuple(range(input.dim())) if _all_dims(dim) is None else dim
    wide = input if input._dtype.is_inexact else input.to(Defaults.dtype)
    x = _filled(reduce.cast_to(wide, dtype), mask, -math.inf)
    result = reduce.logsumexp(x, dims, keepdim) if input.dim() else x.clone()
    return reduce.cast_to(result, dtype or input._dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """logaddexp, where what a mask hides counts as nothing."""
    a = _filled(reduce.cast_to(input, dtype), input_mask, -math.inf)
    b = _filled(reduce.cast_to(other, dtype), other_mask, -math.inf)
    return apply(ops.logaddexp, (a, b))


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DType | None = None,
           mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The lower median of what the mask keeps; NaN where it keeps nothing."""
    x = reduce.cast_to(input, dtype)
    if x._dtype.kind != "float":
        x = x.float()
    return nanmedian_values(_filled(x, mask, math.nan), dim, keepdim)


def nanmedian_values(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    """The lower median along dim, NaN left out."""
    dim = dim % max(x.dim(), 1)
    if not x.dim():
        return x.clone()
    count = reduce.sum(x.detach() == x.detach(), dim, True, dtype=int64)
    ordered = apply(ops.argsort_, (x.detach(), dim, False))  # NaN comes last
    place = ((count - 1) // 2).clamp(min=0)
    at = apply(ops.gather, (ordered, dim, place))
    values = apply(ops.gather, (x, dim, at))
    return values if keepdim else values.squeeze(dim)


def norm(input: Tensor, ord: float = 2.0, dim: Any = None, *, keepdim: bool | None = False,
         dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The vector norm of what the mask keeps."""
    fill = math.inf if ord == -math.inf or ord < 0 else 0
    x = _filled(reduce.cast_to(input, dtype), mask, fill)
    return reduce.vector_norm(x, ord, _all_dims(dim), bool(keepdim))


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None,
            mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """softmax over what the mask keeps; NaN where it keeps nothing."""
    return act.softmax(_filled(reduce.cast_to(input, dtype), mask, -math.inf), dim)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None,
                mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """log_softmax over what the mask keeps."""
    return act.log_softmax(_filled(reduce.cast_to(input, dtype), mask, -math.inf), dim)


def softmin(input: Tensor, dim: int, *, dtype: DType | None = None,
            mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """softmin over what the mask keeps."""
    return act.softmin(_filled(reduce.cast_to(input, dtype), mask, math.inf), dim)


def normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12,
              dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The input over the norm of what the mask keeps; 0 where it hides."""
    x = reduce.cast_to(input, dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask).clamp(min=eps)
    return _filled(x, mask, 0) / size
