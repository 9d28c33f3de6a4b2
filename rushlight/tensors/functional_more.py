"""nn.functional: margin and CTC losses, alpha dropout, random pooling.

In: tensors. Out: values with gradients, composed of records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import int64
from rushlight.tensors.apply import apply
from rushlight.tensors.autocast_rules import follow_all
from rushlight.tensors.creation import arange
from rushlight.tensors.forms import linked
from rushlight.tensors.functional_image import batched, per_dim, unbatched
from rushlight.tensors.functional_loss import reduced_by, reduction_of
from rushlight.tensors.functions_reduce import amax, vector_norm
from rushlight.tensors.functions_reduce import any as any_
from rushlight.tensors.functions_reduce import sum as sum_
from rushlight.tensors.functions_select import known
from rushlight.tensors.functions_shape import cat, stack
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_view import expand, reshape, unsqueeze
from rushlight.tensors.inplace import check_inplace, store
from rushlight.tensors.interop import look
from rushlight.tensors.random import rand
from rushlight.tensors.tensor import Tensor


def _where(mask: Tensor, x: Any, y: Any) -> Tensor:
    return apply(ops.where, (mask, x, y))


# Losses ------------------------------------------------------------------------------------


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes of max(0, margin - x[target] + x[i])^p, i not the target."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    how = reduction_of(reduction, size_average, reduce)
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    x = reshape(input, (1, -1)) if input.dim() < 2 else input
    at = reshape(target, (-1,))
    classes = x._shape[1]
    here = apply(ops.gather, (x, 1, unsqueeze(at, 1)))
    each = (margin - here + x).clamp(min=0)
    each = each if p == 1 else each * each
    if weight is not None:
        each = each * unsqueeze(weight.index_select(0, at), 1)
    each = _where(arange(classes) == unsqueeze(at, 1), 0.0, each)
    result = sum_(each, 1) / classes
    return reduced_by(reshape(result, ()) if input.dim() < 2 else result, how)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The margins between every target (up to the first -1) and every class that is none."""
    if input._shape != target._shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target._shape)} for input of size: "
            f"{list(input._shape)}"
        )
    if input.dim() > 2 or not all(input._shape[1 if input.dim() == 2 else 0 :]):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input._shape)}"
        )
    how = reduction_of(reduction, size_average, reduce)
    x = reshape(input, (1, -1)) if input.dim() < 2 else input
    at = reshape(target, (1, -1)) if input.dim() < 2 else target
    classes = x._shape[1]
    valid = apply(ops.cumprod, ((at >= 0).to(int64), 1)) > 0
    named = apply(ops.logical_and, (unsqueeze(at, 2) == arange(classes), unsqueeze(valid, 2)))
    hit = any_(named, 1, True)
    real = apply(ops.gather, (x, 1, at.clamp(min=0)))
    each = (1 - unsqueeze(real, 2) + unsqueeze(x, 1)).clamp(min=0)
    pairs = apply(ops.logical_and, (unsqueeze(valid, 2), ~hit))
    result = sum_(_where(pairs, each, 0.0), (1, 2)) / classes
    return reduced_by(reshape(result, ()) if input.dim() < 2 else result, how)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows, i < j."""
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = np.triu_indices(input._shape[0], 1)
    if not len(first):
        return linked(known(np.zeros(0, input._dtype.np)), input)
    off = input.index_select(0, known(first.astype(np.int64))) - input.index_select(
        0, known(second.astype(np.int64))
    )
    return vector_norm(off, p, -1)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Connectionist temporal classification: the forward recursion in logarithms."""
    single = log_probs.dim() == 2
    probs = unsqueeze(log_probs, 1) if single else log_probs
    steps, batch, _ = probs._shape
    lengths = [_numbers(v) for v in (input_lengths, target_lengths)]
    labels = _padded_labels(look(targets), lengths[1], batch)
    wide = np.full((batch, 2 * labels.shape[1] + 1), blank, np.int64)
    wide[:, 1::2] = labels
    skip = np.zeros(wide.shape, bool)
    skip[:, 2:] = (wide[:, 2:] != blank) & (wide[:, 2:] != wide[:, :-2])
    index, jumps = known(wide), known(skip)
    low = -1e30 if probs._dtype.name != "float16" else -6e4
    gate = known(np.where(np.arange(wide.shape[1]) < 2, 0.0, low).astype(probs._dtype.np))
    alpha = apply(ops.gather, (probs[0], 1, index)) + gate
    pads = [known(np.full((batch, k), low, probs._dtype.np)) for k in (1, 2)]
    size = wide.shape[1]
    found = [alpha]
    for t in range(1, max(lengths[0], default=1)):
        one = cat([pads[0], alpha], 1)[:, :size]
        two = _where(jumps, cat([pads[1], alpha], 1)[:, :size], low)
        best = amax(stack([alpha, one, two]).detach(), 0)
        total = sum(apply(ops.exp, (v - best,)) for v in (alpha, one, two))
        alpha = best + apply(ops.log, (total,)) + apply(ops.gather, (probs[t], 1, index))
        found.append(alpha)
    ends = np.asarray(lengths[0]) - 1
    last = stack(found)[known(ends.astype(np.int64)), arange(batch)]
    losses = _ctc_losses(last, lengths[1], low)
    lost = losses.detach() > -low / 2
    within = known(np.arange(steps)[:, None] < np.asarray(lengths[0]))
    losses = losses + _ctc_mass(probs, within)
    losses = _where(lost, 0.0 if zero_infinity else math.inf, losses)
    return _reduced_ctc(losses, lengths[1], reduction, single)


def _ctc_mass(probs: Tensor, within: Tensor) -> Tensor:
    """Zero, with the gradient exp(log_probs): PyTorch's gradient is that of log_softmax's input.

    Behind log_softmax it makes no difference, since the gradient then sums to zero.
    """
    mass = sum_(_where(unsqueeze(within, 2), apply(ops.exp, (probs,)), 0.0), (0, 2))
    return mass - mass.detach()


def _ctc_losses(last: Tensor, sizes: list[int], low: float) -> Tensor:
    """Of each sequence, from its last alphas: it ends in its last label or the blank behind it."""
    stop = np.asarray(sizes, np.int64)
    a = apply(ops.gather, (last, 1, known(2 * stop[:, None])))
    b = apply(ops.gather, (last, 1, known(np.maximum(2 * stop - 1, 0)[:, None])))
    b = _where(known((stop > 0)[:, None]), b, low)
    best = apply(ops.maximum, (a, b)).detach()
    whole = best + apply(ops.log, (apply(ops.exp, (a - best,)) + apply(ops.exp, (b - best,)),))
    return reshape(-whole, (-1,))


def _reduced_ctc(losses: Tensor, sizes: list[int], reduction: str, single: bool) -> Tensor:
    if reduction == "mean":
        counts = np.maximum(np.asarray(sizes), 1).astype(losses._dtype.np)
        return (losses / known(counts)).mean()
    if reduction == "sum":
        return losses.sum()
    return reshape(losses, ()) if single else losses


def _numbers(value: Any) -> list[int]:
    if isinstance(value, Tensor):
        value = look(value).reshape(-1).tolist()
    return [int(v) for v in ([value] if isinstance(value, int) else value)]


def _padded_labels(targets: np.ndarray, sizes: list[int], batch: int) -> np.ndarray:
    result = np.zeros((batch, max(sizes, default=0)), np.int64)
    if targets.ndim == 1 and batch >= 1:
        at = 0
        for row, size in enumerate(sizes):
            result[row, :size] = targets[at : at + size]
            at += size
        return result
    for row, size in enumerate(sizes):
        result[row, :size] = targets[row, :size]
    return result


# Dropout -----------------------------------------------------------------------------------


def _alpha_dropout(input: Tensor, p: float, training: bool, inplace: bool, shape: tuple) -> Tensor:
    """Dropped elements become SELU's lower bound; the mean and variance are kept."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    alpha = 1.7580993408473766
    keep = rand(shape, dtype=input._dtype) >= p
    if p == 1:
        result = input * 0
    else:
        a = 1 / math.sqrt((1 - p) * (1 + p * alpha * alpha))
        result = _where(keep, input, -alpha) * a + a * p * alpha
    if not inplace:
        return result
    check_inplace(input)
    return store(input, result)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout for SELU networks, element by element."""
    return _alpha_dropout(input, p, training, inplace, input._shape)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels."""
    shape = (*input._shape[:2], *(1,) * max(input.dim() - 2, 0))
    return _alpha_dropout(input, p, training, inplace, shape)


# Fractional pooling ------------------------------------------------------------------------


def _fractional(spatial: int) -> Callable:
    name = f"fractional_max_pool{spatial}d"

    def function(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        batch, single = batched(input, spatial, name)
        kernel, have = per_dim(kernel_size, spatial), batch._shape[2:]
        if output_size is None:
            ratios = output_ratio if isinstance(output_ratio, tuple | list) else (
                (output_ratio,) * spatial)  # fmt: skip
            output_size = [int(n * r) for n, r in zip(have, ratios, strict=True)]
        sizes = per_dim(output_size, spatial)
        _check_windows(name, have, sizes, kernel)
        n, c = batch._shape[:2]
        draws = rand(n, c, spatial) if _random_samples is None else _random_samples
        lead = -1 if draws.numel() else n
        u = expand(reshape(draws.detach(), (lead, draws._shape[-2], spatial)), (n, c, spatial))
        taps = math.prod(kernel)
        lines = reshape(batch, (n, c, math.prod(batch._shape[2:])))
        places = _window_places(u, have, sizes, kernel)
        at = reshape(places, (n, c, math.prod(sizes) * taps))
        wide = reshape(apply(ops.gather, (lines, 2, at)), (n, c, math.prod(sizes), taps))
        best = apply(ops.window_argmax, (wide.detach(), 3, True))
        values = reshape(apply(ops.gather, (wide, 3, best)), (n, c, *sizes))
        values = unbatched(values, single)
        if not return_indices:
            return values
        where = apply(ops.gather, (reshape(at, wide._shape), 3, best))
        return values, unbatched(reshape(where, (n, c, *sizes)), single)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Max pooling over windows whose places are drawn."
    return function


def _check_windows(
    name: str, have: tuple[int, ...], sizes: tuple[int, ...], kernel: tuple[int, ...]
) -> None:
    names = ("time", "height", "width")[-len(have) :]
    for what, length, size, window in zip(names, have, sizes, kernel, strict=True):
        if size + window - 1 > length - (len(have) == 3):  # PyTorch is stricter with three
            raise RuntimeError(
                f"{name}{'_out' * (len(have) == 3)}(): pool {what} {window} too large relative to "
                f"input {what} {length}"
            )


def _window_places(
    u: Tensor, have: tuple[int, ...], sizes: tuple[int, ...], kernel: tuple[int, ...]
) -> Tensor:
    """Flat places of all windows: (N, C, *sizes, *kernel)."""
    n, c, spatial = u._shape
    flat: Any = 0
    for axis in range(spatial):
        # The draws come in the order (width, height) for 2 dims, (time, height, width) for 3.
        own = narrow(u, 2, spatial - 1 - axis if spatial == 2 else axis, 1)
        starts = _starts(own, have[axis], sizes[axis], kernel[axis])
        places = unsqueeze(starts, 3) + arange(kernel[axis])
        shape = [n, c, *(1,) * (2 * spatial)]
        shape[2 + axis], shape[2 + spatial + axis] = sizes[axis], kernel[axis]
        flat = flat * have[axis] + reshape(places, shape)
    return flat


def _starts(u: Tensor, have: int, size: int, kernel: int) -> Tensor:
    """Graham's pseudo-random sequence, rounded in the dtype of the draws as PyTorch does; the last
    window ends at the edge."""
    number = u._dtype.np.type if isinstance(u._dtype.np, np.dtype) else u._dtype.np
    alpha = float(number(have - kernel) / number(size - 1)) if size > 1 else 0.0
    i = arange(size, dtype=u._dtype)
    found = apply(ops.floor, ((u + i) * alpha,)) - apply(ops.floor, (u * alpha,))
    return _where(i == size - 1, have - kernel, found.to(int64))


fractional_max_pool2d, fractional_max_pool3d = _fractional(2), _fractional(3)


def _fractional_with(pool: Callable, spatial: int) -> Callable:
    def function(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        return pool(input, kernel_size, output_size, output_ratio, True, _random_samples)

    function.__name__ = function.__qualname__ = f"fractional_max_pool{spatial}d_with_indices"
    return function


fractional_max_pool2d_with_indices = _fractional_with(fractional_max_pool2d, 2)
fractional_max_pool3d_with_indices = _fractional_with(fractional_max_pool3d, 3)
# Autocast casts their operands.
(
    fractional_max_pool2d, fractional_max_pool3d, fractional_max_pool2d_with_indices,
    fractional_max_pool3d_with_indices, multi_margin_loss, multilabel_margin_loss, ctc_loss,
) = follow_all(
    fractional_max_pool2d, fractional_max_pool3d, fractional_max_pool2d_with_indices,
    fractional_max_pool3d_with_indices, multi_margin_loss, multilabel_margin_loss, ctc_loss,
)  # fmt: skip
__all__ = [
    "alpha_dropout", "ctc_loss", "feature_alpha_dropout",
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "multi_margin_loss",
    "multilabel_margin_loss", "pdist",
]  # fmt: skip
