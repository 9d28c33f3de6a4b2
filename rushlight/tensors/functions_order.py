"""Functions that sort, pick by rank, or find places in what is sorted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import bool_, int32
from rushlight.ir.arguments import wrap_dim
from rushlight.tensors.apply import apply
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_view import squeeze
from rushlight.tensors.numbers import result_type
from rushlight.tensors.operands import need_tensor
from rushlight.tensors.out import check_apart, write_out_all
from rushlight.tensors.placing import brought
from rushlight.tensors.results import result_class
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

Sort = result_class("sort", ("values", "indices"))
TopK = result_class("topk", ("values", "indices"))
KthValue = result_class("kthvalue", ("values", "indices"))


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """(values, indices) in order along dim; NaN counts as the largest. Always stable.

    >>> import rushlight as torch
    >>> torch.sort(torch.tensor([2.0, 1.0])).indices
    tensor([1, 0])
    """
    if not input.dim():
        wrap_dim(dim, 0)
        return Sort((input.clone(), brought(tensor_of(0), input)))
    order = apply(ops.argsort_, (input, dim, bool(descending)))
    return Sort((apply(ops.gather, (input, dim, order), label="SortBackward0"), order))


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices (int64) that sort along dim."""
    return sort(input, dim, descending, stable)[1]


def msort(input: Tensor) -> Tensor:
    """The values in order along the first dimension."""
    return sort(input, 0)[0]


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """(values, indices) of the k largest or smallest along dim, in order whatever `sorted` says.

    Both have the input's shape with k along `dim`; indices are int64. Of equal elements the first
    comes first, NaN is the largest. RuntimeError when k is negative or more than there are, for
    bool and complex.

    >>> import rushlight as torch
    >>> torch.topk(torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0]), 2).indices.tolist()
    [4, 2]
    """
    dim = wrap_dim(dim, input.dim())
    if input._dtype is bool_:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    size = input._shape[dim] if input.dim() else 1
    if k < 0 or k > size:
        raise RuntimeError("selected index k out of range")
    if not input.dim():
        return TopK((input.clone(), brought(tensor_of(0), input)))
    first = apply(ops.argtopk_, (input, k, dim, bool(largest)))
    return TopK((apply(ops.gather, (input, dim, first), label="TopkBackward0"), first))


def need_order(kernel: str, input: Tensor) -> None:
    """NotImplementedError, in PyTorch's words, for complex numbers and for truth values."""
    dtype = input._dtype
    if dtype is bool_ or dtype.is_complex:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")


def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None
) -> Any:
    """(value, index) of the k-th smallest along dim, counted from 1.

    Raises RuntimeError when there is no k-th.
    """
    check_apart(out, (input,))
    dim = wrap_dim(dim, input.dim())
    if not 1 <= k <= (input._shape[dim] if input.dim() else 1):
        raise RuntimeError("kthvalue(): selected number k out of range for dimension "
                           f"{dim}")  # fmt: skip
    need_order("kthvalue_cpu", input)
    return write_out_all(out, _kth(input, k, dim, keepdim))


def _kth(input: Tensor, k: int, dim: int, keepdim: bool) -> Any:
    if not input.dim():
        return KthValue((input.clone(), brought(tensor_of(0), input)))
    at = narrow(apply(ops.argsort_, (input, dim, False)), dim, k - 1, 1)
    values = apply(ops.gather, (input, dim, at), label="KthvalueBackward0")
    if keepdim:
        return KthValue((values, at))
    return KthValue((squeeze(values, dim), squeeze(at, dim)))


def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None,
) -> Tensor:  # fmt: skip
    """Where each value of `input` would be put into the last dimension of `sorted_sequence`.

    right (or side="right"): behind equal ones. sorter: the indices (int64) that sort the
    sequence. int64, or int32 with `out_int32`. Raises RuntimeError when the arguments disagree.
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    right = right or side == "right"
    _check_boundaries(sorted_sequence, input)
    if sorter is not None:
        if sorter._shape != sorted_sequence._shape:
            raise RuntimeError(
                "torch.searchsorted(): boundary and sorter must have the same size, but got "
                f"boundary tensor {list(sorted_sequence._shape)} and got sorter tensor "
                f"{list(sorter._shape)}"
            )
        last = sorted_sequence.dim() - 1
        sorted_sequence = apply(ops.gather, (sorted_sequence, last, sorter))
    values = input
    if not isinstance(input, Tensor):
        values = tensor_of(input).to(result_type([sorted_sequence, input]))
    need_order("searchsorted_out_cpu", sorted_sequence)
    result = apply(ops.searchsorted, (sorted_sequence, values, right))
    return result.to(int32) if out_int32 else result


def _check_boundaries(boundaries: Any, input: Any) -> None:
    need_tensor("searchsorted", "sorted_sequence", 1, boundaries)
    if not boundaries.dim():
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
            "dimension"
        )
    if boundaries.dim() != 1 and (not isinstance(input, Tensor) or not input.dim()):
        numel = input.numel() if isinstance(input, Tensor) else 1
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
            f"dimension is 1, but we got boundaries tensor dim({boundaries.dim()}) and input "
            f"value's dim(0) numel({numel})"
        )


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """The number of the bucket between `boundaries` (1-dim, in order) of each value."""
    need_tensor("bucketize", "boundaries", 2, boundaries)
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


METHODS: dict[str, Callable] = by_name(sort, argsort, msort, topk, kthvalue)
FUNCTIONS: dict[str, Callable] = {**METHODS, **by_name(searchsorted, bucketize)}
