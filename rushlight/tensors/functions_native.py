"""Names that PyTorch's internals use and that programs copy: native norms with their statistics,
segment reductions, masked indexing without checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import int64
from rushlight.engine.capture import open_session
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import empty, full
from rushlight.tensors.functional_norm import batch_norm, group_norm, layer_norm
from rushlight.tensors.functions_reduce import mean
from rushlight.tensors.functions_shape import cat
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_unique import bounds_up_to
from rushlight.tensors.functions_view import expand, reshape
from rushlight.tensors.interop import look
from rushlight.tensors.out import write_out_all
from rushlight.tensors.tensor import Tensor


def _statistics(x: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor]:
    """The mean and one over the standard deviation (with eps), dims kept."""
    average = mean(x, dims, True)
    off = x - average
    return average, apply(ops.rsqrt, (mean(off * off, dims, True) + eps,))


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """layer_norm, the mean and one over the standard deviation."""
    dims = tuple(range(input.dim() - len(normalized_shape), input.dim()))
    result = layer_norm(input, list(normalized_shape), weight, bias, eps)
    return result, *_statistics(input, dims, eps)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,  # noqa: N803
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """group_norm, the mean and one over the standard deviation of each group."""
    result = group_norm(input, group, weight, bias, eps)
    parts = _statistics(reshape(input, (N, group, C // group * HxW)), (2,), eps)
    return result, *(reshape(p, (N, group)) for p in parts)  # type: ignore[return-value]


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, *, out: Any = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """batch_norm; in training also the mean and one over the standard deviation."""
    args = (weight, bias, training, momentum, eps)
    result = batch_norm(input, running_mean, running_var, *args)
    dims = tuple(d for d in range(input.dim()) if d != 1)
    parts: Any = _statistics(input, dims, eps) if training else [empty(0, dtype=input._dtype)] * 2
    return write_out_all(out, (result, *(reshape(part, (-1,)) for part in parts)))


def native_batch_norm_legit(input: Tensor, weight: Any, bias: Any, *args: Any) -> tuple:
    """native_batch_norm with running statistics, or without (training, momentum, eps)."""
    if len(args) == 3:
        args = (None, None, *args)
    return native_batch_norm(input, weight, bias, *args)


# Segments ----------------------------------------------------------------------------------

STARTS = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
KINDS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


def _bounds_of(lengths: Tensor, rows: int, unsafe: bool) -> Tensor:
    """Where each segment starts, and the end of the last."""
    ends = apply(ops.cumsum, (lengths.to(int64), lengths.dim() - 1))
    # Within a captured or vmapped call the values are those of no one call, so none is looked at.
    if not unsafe and open_session() is None and (look(lengths).sum(-1) != rows).any():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to "
            "data.size(lengths.dim()-1) when !unsafe."
        )
    return cat([full((*lengths._shape[:-1], 1), 0, dtype=int64), ends], -1)


def _segment_of_rows(bounds: Tensor, rows: int) -> Tensor:
    """For each line of bounds the segment of each row; one more stands for rows in none."""
    count, owner = bounds._shape[-1] - 1, bounds_up_to(bounds, rows) - 1
    return apply(ops.where, ((owner < 0) | (owner >= count), count, owner))


def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """Rows of each segment along axis joined by sum, mean, prod, max or min."""
    if reduce not in STARTS:
        raise RuntimeError(f"segment_reduce: unsupported reduction {reduce!r}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    lead, rows, rest = data._shape[:axis], data._shape[axis], (1,) * (data.dim() - axis - 1)
    bounds = offsets if lengths is None else _bounds_of(lengths, rows, unsafe)
    count = bounds._shape[-1] - 1  # type: ignore[union-attr]
    owner = _segment_of_rows(bounds, rows)  # type: ignore[arg-type]
    start = STARTS[reduce] if initial is None else initial
    base = full((*lead, count + 1, *data._shape[axis + 1 :]), start, dtype=data._dtype)
    index = expand(reshape(owner, (*lead, rows, *rest)), data._shape)
    args = (base, axis, index, data, KINDS[reduce], True)
    total = narrow(apply(ops.scatter_reduce, args), axis, 0, count)
    if reduce != "mean":
        return total
    sizes = narrow(bounds, -1, 1, count) - narrow(bounds, -1, 0, count)  # type: ignore[arg-type]
    sizes = reshape(sizes, (*lead, count, *rest)).to(data._dtype)
    # An empty segment keeps the start that was asked for, and is NaN without one.
    empty_size = math.nan if initial is None else 1.0
    return total / apply(ops.where, (sizes == 0, empty_size, sizes))


# Indexing ----------------------------------------------------------------------------------


def unsafe_masked_index(input: Tensor, mask: Tensor, indices: Sequence[Any], fill: Any) -> Tensor:
    """input[indices] where the mask is true, fill elsewhere; the indices are not checked there."""
    held = _held(input, indices)
    return apply(ops.where, (mask, input[held], fill))


def _held(input: Tensor, indices: Sequence[Any]) -> tuple:
    return tuple(
        slice(None) if at is None else at.clamp(-n, n - 1)
        for at, n in zip(indices, input._shape, strict=False)
    )


def unsafe_masked_index_put_accumulate(
    input: Tensor, mask: Tensor, indices: Sequence[Any], values: Tensor
) -> Tensor:
    """Adds values at the indices where the mask is true."""
    shown = apply(ops.where, (mask, values, 0)).to(values.dtype)  # bool stays bool
    return input.index_put(_held(input, indices), shown, accumulate=True)


def reflected_divide(self: Tensor, other: Any) -> Tensor:
    """other / self: Python 2's __rdiv__."""
    if not isinstance(self, Tensor):
        raise TypeError(f"descriptor '__rdiv__' requires a Tensor, not {type(self).__name__}")
    return apply(ops.div, (other, self))


FUNCTIONS: dict[str, Callable] = {
    "native_layer_norm": native_layer_norm, "native_group_norm": native_group_norm,
    "native_batch_norm": native_batch_norm, "_native_batch_norm_legit": native_batch_norm_legit,
    "_segment_reduce": segment_reduce, "segment_reduce": segment_reduce,
    "_unsafe_masked_index": unsafe_masked_index,
    "_unsafe_masked_index_put_accumulate": unsafe_masked_index_put_accumulate,
}  # fmt: skip
METHODS: dict[str, Callable] = {"__rdiv__": reflected_divide}
