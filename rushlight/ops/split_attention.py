"""Attention whose keys are split into partitions: for few queries and many keys (decoding).

Each partition is a batch element of its own, so all threads have work. The partitions have a fixed
size and are joined in ascending order: the bits do not depend on threads.

Shape letters: R rows of queries that share their keys, S keys, P partitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_
from rushlight.ir.opdef import FROM_DECOMPOSITION, Arg, Attr, Call, op
from rushlight.ops.attention import (
    flash_attention,
    flash_lse,
    flash_reference,
    flash_top,
    lse_reference,
)
from rushlight.ops.binary import add, eq, floor_divide, logical_and, mul
from rushlight.ops.build import iota_along
from rushlight.ops.build import keep as keep_dim
from rushlight.ops.movement import expand, reshape
from rushlight.ops.pairs import MINUS, PAIR_TILE, pair_index, pair_mask
from rushlight.ops.reduce import reduce_max, reduce_sum
from rushlight.ops.rules import Shape, operand_dtype
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, truth
from rushlight.ops.select import where
from rushlight.ops.unary import exp, log

TABLES = Arg("tables", variadic=True)
# The codes of a span in which every group of rows sees all keys, and of one where `keep` decides.
ALL_FULL, ALL_MASKED = 0xAAAA, 0x5555


def _parts(scores: Any, keep: Any, tables: Any, partition: int) -> Any:
    """Scores (..., R, S) -> (..., P, R, S): each partition sees its own keys."""
    *lead, rows, keys = scores.shape
    count = -(-keys // partition)
    shape = (*lead, count, rows, keys)
    number, key = (pair_index(shape, dim=len(shape) - at) for at in (3, 1))
    inside = eq(floor_divide(key, partition), number)
    if keep is not None:
        inside = logical_and(inside, reshape(keep, (*keep.shape[:-2], 1, *keep.shape[-2:])))
    parts = expand(reshape(scores, (*lead, 1, rows, keys)), shape)
    code = ALL_FULL if keep is None else ALL_MASKED
    tables = tables or _all_tiles(count, partition // PAIR_TILE, code)
    return pair_mask(parts, inside, tables, is_causal=False, fill="minus")


def _all_tiles(count: Any, size: int, code: int) -> list[Any]:
    """Tables (ops/pairs) of partitions of `size` tiles: one span each, with this code. They are
    counted, not stored: kernels compute an element where they need it."""
    number, side = iota_along(2, 0, count), iota_along(2, 1, 2)
    column = iota_along(2, 1, 3)
    ends = mul(add(number, column), size)  # first and stop
    return [add(number, side), where(eq(column, 2), code, ends)]


def _shares(lse: Any) -> tuple[Any, Any, Any]:
    """Of the lse of partitions (..., P, R): the largest (..., R), each one's share, their sum."""
    dim = lse.ndim - 2
    most = reduce_max(lse, (dim,))
    base = keep_dim(where(eq(most, MINUS), 0.0, most), lse.shape, (dim,))
    share = exp(lse - base)
    return most, share, reduce_sum(share, (dim,))


def split_decompose(scores: Any, value: Any, keep: Any, tables: Any, partition: int) -> Any:
    parts = _parts(scores, keep, tables, partition)
    lse = flash_lse(parts)
    *lead, keys, width = value.shape
    out = flash_attention(parts, reshape(value, (*lead, 1, keys, width)), lse)
    _, share, total = _shares(lse)
    summed = reduce_sum(out * reshape(share, (*share.shape, 1)), (lse.ndim - 2,))
    return summed / reshape(where(eq(total, 0.0), 1.0, total), (*total.shape, 1))


def split_lse_decompose(scores: Any, keep: Any, tables: Any, partition: int) -> Any:
    most, _, total = _shares(flash_lse(_parts(scores, keep, tables, partition)))
    return most + log(total)


def split_top_decompose(scores: Any, keep: Any, tables: Any, partition: int) -> Any:
    top = flash_top(_parts(scores, keep, tables, partition))
    return reduce_max(top, (top.ndim - 2,))


def check_split(call: Call) -> None:
    scores, keep, partition = call["scores"], call["keep"], call["partition"]
    if partition < PAIR_TILE or partition % PAIR_TILE:
        raise ValueError(f"partition must be a multiple of {PAIR_TILE}, got {partition}")
    if keep is not None and (keep.dtype is not bool_ or keep.ndim != scores.ndim):
        raise RuntimeError(
            f"keep must be bool with {scores.ndim} dims, got {keep.dtype.name}{list(keep.shape)}"
        )


def _masked(scores: np.ndarray, keep: Any) -> np.ndarray:
    return scores if keep is None else np.where(keep, scores, np.asarray(MINUS, scores.dtype))


def split_reference(
    scores: np.ndarray, value: np.ndarray, keep: Any, tables: list, partition: int
) -> np.ndarray:
    scores = _masked(scores, keep)
    return flash_reference(scores, value, lse_reference(scores))


def split_samples(rng: Rng) -> list[Sample]:
    seen = truth(rng, 1, 2, 150)
    seen[..., 0] = True
    attrs = {"partition": 64}
    return [
        Sample((array(rng, 1, 2, 150), array(rng, 1, 150, 3), None, []), attrs),
        Sample((array(rng, 1, 2, 150), array(rng, 1, 150, 3), seen, []), attrs),
    ]


def split_score_samples(rng: Rng) -> list[Sample]:
    return [Sample((s.args[0], *s.args[2:]), s.attrs) for s in split_samples(rng)]


def _out_shape(call: Call) -> Shape:
    return (*call["scores"].shape[:-1], call["value"].shape[-1])


split_attention = op(
    name="split_attention",
    doc="softmax(scores) @ value in partitions of keys; `keep` is true where a key is seen, the "
    "tables (ops/pairs) are those of the partitions, none if all keys may be seen.",
    inputs=(Arg("scores"), Arg("value"), Arg("keep", optional=True), TABLES,
            Attr("partition", 512)),
    shape=_out_shape,
    dtype=operand_dtype,
    decompose=split_decompose,
    reference=split_reference,
    grad=FROM_DECOMPOSITION,
    promote="none",
    sums_pairs=True,
    check=check_split,
    samples=split_samples,
    error_samples=(
        ErrorSample(
            (np.ones((2, 9)), np.ones((9, 3)), None, []), {"partition": 5}, ValueError, "multiple"
        ),
    ),
)  # fmt: skip

split_lse = op(
    name="split_lse",
    doc="log(sum(exp(scores))) over keys in partitions, as split_attention sees them.",
    inputs=(Arg("scores"), Arg("keep", optional=True), TABLES, Attr("partition", 512)),
    shape=lambda call: call["scores"].shape[:-1],
    dtype=operand_dtype,
    decompose=split_lse_decompose,
    reference=lambda scores, keep, tables, partition: lse_reference(_masked(scores, keep)),
    grad=FROM_DECOMPOSITION,
    promote="none",
    sums_pairs=True,
    check=check_split,
    samples=split_score_samples,
)

split_top = op(
    name="split_top",
    doc="The largest score of every query, as split_attention sees them.",
    inputs=(Arg("scores"), Arg("keep", optional=True), TABLES, Attr("partition", 512)),
    shape=lambda call: call["scores"].shape[:-1],
    dtype=operand_dtype,
    decompose=split_top_decompose,
    reference=lambda scores, keep, tables, partition: np.fmax.reduce(
        _masked(scores, keep), -1, initial=MINUS
    ),
    grad=flash_top.grad,
    promote="none",
    sums_pairs=True,
    check=check_split,
    samples=split_score_samples,
)
