"""Softmax, log_softmax and the public cumulative ops (one dim, the shape stays)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.dtypes import int64
from rushlight.ir.opdef import Arg, Dim
from rushlight.ir.symint_math import ceildiv
from rushlight.ops import reference as ref
from rushlight.ops.binary import eq, le, logical_and, maximum, ne
from rushlight.ops.build import conj_of, iota_along, keep, pad_dim, real_of, slice_dim, to_dtype
from rushlight.ops.complex import complex_, imag
from rushlight.ops.composite import composite
from rushlight.ops.late import late
from rushlight.ops.meta import Meta
from rushlight.ops.movement import flip, permute, reshape
from rushlight.ops.phases import running_complex_logsumexp, with_turns
from rushlight.ops.reduce import (
    SUM_CHUNK,
    reduce_max,
    reduce_sum,
    scan_prod,
    scan_running_sum,
    scan_sum,
)
from rushlight.ops.reductions import whole_sum_dtype
from rushlight.ops.rules import inexact_dtype, is_static, operand_shape
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, over_dim
from rushlight.ops.select import where
from rushlight.ops.statistics import logsumexp_decompose
from rushlight.ops.unary import abs_, exp, isfinite, log, log1p

INPUTS = (Arg("input"), Dim("dim"))
ERRORS = (ErrorSample((np.ones((2, 3)),), {"dim": 2}, IndexError, "Dimension out of range"),)


def samples(rng: Rng) -> list[Sample]:
    return [
        *over_dim()(rng),
        Sample((array(rng),), {"dim": 0}),
        Sample((array(rng, 0, 2),), {"dim": 1}),
    ]


def at_least_1d(rule: Callable) -> Callable:
    """Let a rule over `dim` see a 0-dim operand as one of one element."""

    def decompose(input: Any, dim: int) -> Any:  # noqa: A002
        if input.ndim:
            return rule(input, dim)
        return reshape(rule(reshape(input, (1,)), 0), ())

    return decompose


def over_last(x: Any, dim: int, reduce: Callable) -> Any:
    """Reduce one dim and keep it."""
    return keep(reduce(x, (dim,)), x.shape, (dim,))


def _is_empty(x: Any, dim: int) -> bool:
    return is_static(x.shape[dim]) and x.shape[dim] == 0


def softmax_rule(x: Any, dim: int) -> Any:
    if _is_empty(x, dim):
        return x
    e = exp(x - over_last(x, dim, reduce_max))
    return e / over_last(e, dim, reduce_sum)


def log_softmax_rule(x: Any, dim: int) -> Any:
    if _is_empty(x, dim):
        return x
    off = x - over_last(x, dim, reduce_max)
    return off - log(over_last(exp(off), dim, reduce_sum))


def _sum_over(x: Any, dim: int) -> Any:
    return at_least_1d(lambda y, d: over_last(y, d, reduce_sum))(x, dim)


def softmax_grad(g: Any, out: Any, dim: int, meta: Meta) -> tuple:
    return (out * (g - _sum_over(g * out, dim)),)


def log_softmax_grad(g: Any, out: Any, dim: int, meta: Meta) -> tuple:
    return (g - exp(out) * _sum_over(g, dim),)


softmax = composite(
    "softmax",
    "Exponentials over their sum along dim.",
    INPUTS,
    at_least_1d(softmax_rule),
    lambda input, dim: ref.softmax(input, dim),
    softmax_grad,
    shape=operand_shape,
    torch=("torch.softmax", "Tensor.softmax", "nn.functional.softmax"),
    promote="float",
    samples=samples,
    error_samples=ERRORS,
    pair='"softmax_lastdim_kernel_impl"',
)
log_softmax = composite(
    "log_softmax",
    "The logarithm of softmax.",
    INPUTS,
    at_least_1d(log_softmax_rule),
    lambda input, dim: ref.log_softmax(input, dim),
    log_softmax_grad,
    shape=operand_shape,
    torch=("torch.log_softmax", "Tensor.log_softmax", "nn.functional.log_softmax"),
    promote="float",
    samples=samples,
    error_samples=ERRORS,
    pair='"log_softmax_lastdim_kernel_impl"',
)


def _whole(rule: Callable) -> Callable:
    """Whole numbers and bools are accumulated as int64."""

    def decompose(x: Any, dim: int) -> Any:
        return rule(to_dtype(x, int64) if x.dtype.is_integral else x, dim)

    return at_least_1d(decompose)


def _numpy_along(function: Callable) -> Callable:
    return lambda input, dim: function(input, axis=dim) if input.ndim else input  # noqa: A002


def running_sum(x: Any, dim: int) -> Any:
    """Running sums in chunks, each continued from the sum of all chunks before it.

    A plain chain of float adds loses digits with its length; this loses them with its root. The
    first chunk is never added to, so a short sum has the same bits whatever the size.
    """
    size = x.shape[dim]
    if x.dtype.is_integral or (is_static(size) and size <= SUM_CHUNK):
        return scan_sum(x, dim)
    return scan_running_sum(x, dim)


def running_sum_in_steps(x: Any, dim: int) -> Any:
    """The same as a scan of all chunks, one of their sums, and additions."""
    size, lead, trail = x.shape[dim], x.shape[:dim], x.shape[dim + 1 :]
    count = ceildiv(size, SUM_CHUNK)
    padded = pad_dim(x, x.ndim, dim, 0, count * SUM_CHUNK - size, 0.0, x.dtype)
    inner = scan_sum(reshape(padded, (*lead, count, SUM_CHUNK, *trail)), dim + 1)
    totals = slice_dim(inner, inner.shape, dim + 1, SUM_CHUNK - 1, 1)
    sums = scan_sum(reshape(totals, (*lead, count, *trail)), dim)
    one_later = pad_dim(sums, sums.ndim, dim, 1, 0, 0.0, x.dtype)
    before = slice_dim(one_later, one_later.shape, dim, 0, count)
    before = reshape(before, (*lead, count, 1, *trail))
    first = eq(iota_along(inner.ndim, dim, count), 0)
    total = where(first, inner, inner + before)
    return slice_dim(reshape(total, padded.shape), padded.shape, dim, 0, size)


def cumsum_grad(g: Any, dim: int, meta: Meta) -> tuple:
    if not meta.shape("input"):
        return (g,)
    return (flip(running_sum(flip(g, (dim,)), dim), (dim,)),)


cumsum = composite(
    "cumsum",
    "Running sums along dim; whole numbers become int64.",
    INPUTS,
    _whole(running_sum),
    _numpy_along(np.cumsum),
    cumsum_grad,
    shape=operand_shape,
    dtype=whole_sum_dtype,
    torch=("torch.cumsum", "Tensor.cumsum", "Tensor.cumsum_"),
    samples=samples,
    error_samples=ERRORS,
)
cumprod = composite(
    "cumprod",
    "Running products along dim; whole numbers become int64.",
    INPUTS,
    _whole(scan_prod),
    _numpy_along(np.cumprod),
    shape=operand_shape,
    dtype=whole_sum_dtype,
    torch=("torch.cumprod", "Tensor.cumprod", "Tensor.cumprod_"),
    samples=samples,
    error_samples=ERRORS,
)


# [running logsumexp] Blocks of FEW elements, each element against those before it in its block; the
# blocks' last results are blocks again. So the work is n * FEW, and exact for any range: nothing
# is taken from a sum of exponentials once it is there.
FEW, LEVELS = 16, 3


def logcumsumexp_rule(x: Any, dim: int) -> Any:
    order = (*(i for i in range(x.ndim) if i != dim), dim)
    lines = permute(x, order)
    result = _complex_running(lines) if x.dtype.is_complex else _running(lines, LEVELS)
    return permute(result, tuple(sorted(range(x.ndim), key=order.__getitem__)))


def _running(x: Any, levels: int) -> Any:
    """Over the last dim."""
    *lead, size = x.shape
    last = x.ndim - 1
    if not levels or (is_static(size) and size <= 2 * FEW):
        return _against_earlier(x)
    count = ceildiv(size, FEW)
    nothing = float("-inf")
    padded = pad_dim(x, x.ndim, last, 0, count * FEW - size, nothing, x.dtype)
    inner = _against_earlier(reshape(padded, (*lead, count, FEW)))
    ends = reshape(slice_dim(inner, inner.shape, last + 1, FEW - 1, 1), (*lead, count))
    ends = _running(ends, levels - 1)
    before = slice_dim(ends, ends.shape, last, 0, count - 1)
    before = pad_dim(before, x.ndim, last, 1, 0, nothing, x.dtype)
    total = _joined(inner, reshape(before, (*lead, count, 1)))
    return slice_dim(reshape(total, padded.shape), padded.shape, last, 0, size)


def _joined(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)); of two equal infinities that one."""
    top = maximum(a, b)
    apart = where(eq(a, b), 0.0, -abs_(a - b))
    return where(isfinite(top), top + log1p(exp(apart)), top)


def _against_earlier(x: Any) -> Any:
    """Each element's logsumexp over those up to it."""
    return logsumexp_decompose(_upto(x), (x.ndim,))


def _upto(x: Any) -> Any:
    """For each element of the last dim, the row of those up to it (-inf after it)."""
    *lead, size = x.shape
    rows = reshape(x, (*lead, 1, size))
    upto = le(iota_along(2, 1, size), iota_along(2, 0, size))
    return where(upto, rows, float("-inf"))


def _complex_running(x: Any) -> Any:
    """Of complex numbers: n * n work."""
    if _is_empty(x, x.ndim - 1):
        return x
    return with_turns(x, _from_largest(_upto(x)))


def _from_largest(rows: Any) -> Any:
    """logsumexp of complex numbers over the last dim, counted from the largest of them: the
    imaginary part is near that one's, whatever its size."""
    last, re = rows.ndim - 1, real_of(rows)
    high = over_last(re, last, reduce_max)
    turn = over_last(where(eq(re, high), imag(rows), float("-inf")), last, reduce_max)
    top = complex_(where(isfinite(high), high, 0.0), turn)
    total = log(over_last(exp(rows - top), last, reduce_sum)) + top
    return reshape(total, rows.shape[:-1])


def logcumsumexp_grad(g: Any, input: Any, out: Any, dim: int, meta: Meta) -> tuple:  # noqa: A002
    """The sum over later results j of g_j exp(x_i - out_j)."""
    if not meta.shape("input"):
        return (g,)
    if input.dtype.is_complex:
        return (_complex_logcumsumexp_grad(g, input, out, dim, meta),)
    return (late.exp_of_later(g, input, out, dim),)


def _complex_logcumsumexp_grad(g: Any, input: Any, out: Any, dim: int, meta: Meta) -> Any:  # noqa: A002
    ndim, size = meta.ndim("input"), meta.shape("input")[dim]
    order = (*(i for i in range(ndim) if i != dim), dim)
    x, y, by = (permute(v, order) for v in (input, out, g))
    lead = tuple(meta.shape("input")[i] for i in order[:-1])
    later = le(iota_along(2, 1, size), iota_along(2, 0, size))
    some = logical_and(later, ne(reshape(y, (*lead, size, 1)), float("-inf")))
    gap = reshape(x, (*lead, 1, size)) - reshape(y, (*lead, size, 1))
    share = where(some, exp(conj_of(where(some, gap, 0.0))), 0.0)
    total = reduce_sum(reshape(by, (*lead, size, 1)) * share, (ndim - 1,))
    return permute(total, (*range(dim), ndim - 1, *range(dim, ndim - 1)))


def running_logsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    if x.dtype.kind == "c":
        return running_complex_logsumexp(x, axis)
    return np.logaddexp.accumulate(x, axis=axis)


logcumsumexp = composite(
    "logcumsumexp",
    "log of the running sums of exponentials along dim.",
    INPUTS,
    at_least_1d(logcumsumexp_rule),
    _numpy_along(running_logsumexp),
    logcumsumexp_grad,
    shape=operand_shape,
    dtype=inexact_dtype,
    torch=("torch.logcumsumexp", "Tensor.logcumsumexp"),
    samples=samples,
    error_samples=ERRORS,
)
