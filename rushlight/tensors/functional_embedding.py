"""nn.functional: rows of tables, one by one or summed in bags.

In: whole numbers and a table. Out: rows with gradients. Nothing here waits for values: indices
that are known are checked at once, others by the kernel that reads them.
"""

from __future__ import annotations

import math
from typing import Any

from rushlight import ops
from rushlight.autograd.mode import no_grad
from rushlight.base.dtypes import int32, int64
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import arange
from rushlight.tensors.functions_math import clamp
from rushlight.tensors.functions_order import searchsorted
from rushlight.tensors.functions_reduce import sum as sum_
from rushlight.tensors.functions_reduce import vector_norm
from rushlight.tensors.functions_select import index_select
from rushlight.tensors.functions_view import reshape, unsqueeze
from rushlight.tensors.index_checks import check_index
from rushlight.tensors.inplace import store
from rushlight.tensors.tensor import LEGACY, Tensor


def _where(mask: Tensor, x: Any, y: Any) -> Tensor:
    return apply(ops.where, (mask, x, y))


def _row_numbers(input: Tensor, name: str) -> Tensor:
    """The indices as int64."""
    if input._dtype not in (int64, int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got torch.{input._dtype.scalar_name}Tensor instead (while checking "
            f"arguments for {name})"
        )
    return input if input._dtype is int64 else input.to(int64)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of `weight` at the indices; the row `padding_idx` gets no gradient.

    Args:
        max_norm: rows that are read and longer than this are shortened in `weight`, in place.
        scale_grad_by_freq: a row's gradient is divided by how often the row is read.
        sparse: the gradient of `weight` is a sparse tensor (COO) of the rows that are read.
    """
    index = _row_numbers(input, "embedding")
    rows = weight._shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    skip = -1 if padding_idx is None else padding_idx % rows
    check_index(input, rows, "index out of range in self", IndexError)
    if max_norm is not None:
        _shorten_rows(weight, index, max_norm, norm_type)
    if sparse:
        out = LEGACY.sparse("sparse_embedding")(weight, index, skip)
    else:
        out = apply(ops.embedding, (weight, index, skip))
    return _shared_gradient(out, index, rows) if scale_grad_by_freq else out


def _shorten_rows(weight: Tensor, index: Tensor, most: float, p: float) -> None:
    """Make the rows that are read at most so long, in place; equal indices write equal rows."""
    with no_grad():
        at = reshape(index, (-1,))
        read = index_select(weight, 0, at)
        size = vector_norm(read, p, 1, True)
        short = _where(size > most, read * (most / (size + 1e-7)), read)
        store(weight, apply(ops.scatter_nd, (weight.detach(), short, [at], "set")))


def _shared_gradient(out: Tensor, index: Tensor, rows: int) -> Tensor:
    """The same values; the gradient of a row that is read n times is divided by n."""
    at = reshape(index, (-1,))
    ones = out.detach().new_ones(at._shape)
    often = ones.new_zeros((rows,)).index_add(0, at, ones)
    share = reshape(1.0 / index_select(often, 0, at), (*index._shape, 1))
    rest = out.detach()
    return rest + (out - rest) * share


# Bags --------------------------------------------------------------------------------------


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or maximum of the rows of each bag; an empty bag gives zeros.

    Args:
        input: (bags, length), or all indices in one row with the `offsets` where bags start.
        per_sample_weights: a factor for each row, for the sum only.
        include_last_offset: the last offset is the end of the last bag.
        padding_idx: rows that count as not there.
    """
    settings = (mode, per_sample_weights, padding_idx, include_last_offset)
    _check_bag_call(input, weight, offsets, *settings)
    if scale_grad_by_freq and mode == "max":
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    options = (None, max_norm, norm_type, scale_grad_by_freq, sparse)
    rows = embedding(_row_numbers(input, "embedding_bag"), weight, *options)
    if per_sample_weights is not None:
        rows = rows * unsqueeze(per_sample_weights, -1)
    keep = None
    if padding_idx is not None:
        keep = unsqueeze(input != padding_idx % weight._shape[0], -1)
    if input.dim() == 2:
        return _bags_of_rows(rows, keep, mode)
    assert offsets is not None
    starts = offsets[:-1] if include_last_offset else offsets
    return _bags_by_offset(rows, keep, starts, mode)


def _bags_of_rows(rows: Tensor, keep: Tensor | None, mode: str) -> Tensor:
    """Bags of equal length: a reduction."""
    length = rows._shape[1]
    if mode == "max":
        if not length:
            return sum_(rows, 1)
        return _zero_if_none((rows if keep is None else _where(keep, rows, -math.inf)).amax(1))
    total = sum_(rows if keep is None else _where(keep, rows, 0.0), 1)
    if mode == "sum":
        return total
    count = max(length, 1) if keep is None else clamp(sum_(keep.to(rows._dtype), 1), min=1)
    return total / count


def _bags_by_offset(rows: Tensor, keep: Tensor | None, starts: Tensor, mode: str) -> Tensor:
    """Bags of any length: a scatter to the bag in which each row is."""
    count, bags = rows._shape[0], starts._shape[0]
    owner = searchsorted(starts, arange(count, dtype=starts._dtype), right=True) - 1
    owner = owner.to(int64)
    shape = (bags, rows._shape[1])
    if mode == "max":
        rows = rows if keep is None else _where(keep, rows, -math.inf)
        where = unsqueeze(owner, 1).expand(rows._shape)
        start = rows.detach().new_full(shape, -math.inf)
        return _zero_if_none(start.scatter_reduce(0, where, rows, "amax"))
    rows = rows if keep is None else _where(keep, rows, 0.0)
    total = rows.detach().new_zeros(shape).index_add(0, owner, rows)
    if mode == "sum":
        return total
    ones = rows.detach().new_ones((count, 1))
    ones = ones if keep is None else _where(keep, ones, 0.0)
    sizes = ones.new_zeros((bags, 1)).index_add(0, owner, ones)
    return total / clamp(sizes, min=1)


def _zero_if_none(best: Tensor) -> Tensor:
    return _where(best == -math.inf, 0.0, best)


def _check_bag_call(
    input: Tensor, weight: Tensor, offsets: Tensor | None, mode: str, shares: Tensor | None,
    padding_idx: int | None, include_last: bool,
) -> None:  # fmt: skip
    if shares is not None and shares._shape != input._shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({shares.shape}) is not None, then it must "
            f"have the same shape as the input ({input.shape})"
        )
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
            f"of fixed length sequences. However, found offsets of type {type(offsets)}"
        )
    if input.dim() not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if shares is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    rows = weight._shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, "
            f"but got {padding_idx}"
        )
    check_index(
        reshape(input, (-1,)), rows,
        f"Index {{at}} of input takes value {{bad}} which is not in the valid range [0, {rows})",
        RuntimeError,
    )  # fmt: skip
    if input.dim() == 1:
        _check_offsets(offsets, input.numel(), include_last)


def _check_offsets(offsets: Tensor | None, count: int, include_last: bool) -> None:
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if include_last and not offsets.numel():
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if not offsets.numel():
        return
    check_index(
        offsets[:1], 1,
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
        "position 0. However, got {bad}",
        RuntimeError,
    )  # fmt: skip
    check_index(
        offsets[-1:], count + 1,
        f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of "
        "{bad}",
        RuntimeError,
    )  # fmt: skip


__all__ = ["embedding", "embedding_bag"]
