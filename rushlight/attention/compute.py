"""Attention with a score_mod and a mask, as pair values (ops/pairs.py).

In: query, key, value, the functions. Out: output, log of the sum of exponentials, largest score.
The order is s = (q k) scale -> score_mod -> mask -> softmax -> v. The functions are called once, on
pair values; what they do is recorded as ordinary ops, so that all they captured gets gradients, and
becomes part of the one kernel. Always true: rows that see no key give 0, lse -inf and no gradient.

Shape letters: B batch, H heads of queries, N heads of keys, L queries, S keys, E features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import rushlight as torch
from rushlight import ops
from rushlight.attention.block_mask import BlockMask
from rushlight.attention.decode import fits_decoding, rows_of_groups, tables_of
from rushlight.attention.divide import as_four_dims
from rushlight.attention.kernel_options import Choice
from rushlight.tensors.apply import apply
from rushlight.tensors.functional_attention import for_each_head


@dataclass(frozen=True)
class Attended:
    """out (B, H, L, Ev) in the dtype of the query; functions that give the lse, and the largest
    score of every query, (B, H, L)."""

    out: torch.Tensor
    lse: Callable[[], torch.Tensor]
    top: Callable[[], torch.Tensor]


def attention(
    query: Any, key: Any, value: Any, score_mod: Callable | None, block_mask: BlockMask | None,
    scale: float, choice: Choice,
) -> Attended:  # fmt: skip
    """All tensors have four dims and one batch size; heads of keys divide those of queries."""
    needs_grad = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    shape = (*query.shape[:3], key.shape[2])
    if block_mask is not None and block_mask.keeps_all():
        block_mask = None
    if not needs_grad and _is_cut(query, key, choice):
        rows = _products(rows_of_groups(query, key.size(1)), key, scale, choice.prescale)
        scores, keep = _scores(rows, value, score_mod, block_mask, shape)
        if not scores.requires_grad:  # nor does the score_mod need one
            return _decoded(query, scores, keep, value, block_mask, choice.partition)
    if choice.must_cut:
        raise RuntimeError(
            "BACKEND='TRITON_DECODE' was specified but flex_decoding cannot be used for this "
            "input. flex_decoding is only available for short sequence lengths with specific "
            "configurations."
        )
    if query.size(1) != key.size(1):
        key, value = (for_each_head(x, query.size(1)) for x in (key, value))
    products = _products(query, key, scale, choice.prescale)
    scores, keep = _scores(products, value, score_mod, block_mask, shape)
    if keep is not None:
        assert block_mask is not None
        tables = block_mask.tables(query.device, needs_grad or scores.requires_grad)
        scores = apply(ops.pair_mask, (scores, keep, tables, False, "minus"))
    lse = apply(ops.flash_lse, (scores,))
    out = apply(ops.flash_attention, (scores, value, lse))
    return Attended(as_dtype(out, query), lambda: lse, lambda: apply(ops.flash_top, (scores,)))


def _is_cut(query: Any, key: Any, choice: Choice) -> bool:
    """Are the keys cut into parts that are joined in order?"""
    worth = choice.must_cut or key.size(2) > choice.partition
    return choice.may_cut and worth and fits_decoding(query, key)


def _products(query: Any, key: Any, scale: float, prescale: bool) -> Any:
    """Scaled scores, pair values; `prescale`: the query is scaled, not each score."""
    if prescale:
        return apply(ops.pair_dot, (query.to(query.dtype.compute) * scale, key))
    return apply(ops.pair_dot, (query, key)) * scale


def _decoded(
    query: Any, scores: Any, keep: Any, value: Any, block_mask: BlockMask | None, partition: int
) -> Attended:
    """Scores and mask (B, H, L, S) as rows of the heads of keys."""
    batch, heads, length = query.shape[:3]
    kv_heads, keys = value.shape[1:3]
    folded = (batch, kv_heads, heads // kv_heads * length, keys)
    if tuple(scores.shape) != folded:
        scores = scores.reshape(folded)
        keep = None if keep is None else keep.reshape(folded)
    tables = tables_of(block_mask, keys, partition, query.device)
    rest = (keep, tables, partition)

    def unfolded(x: Any) -> Any:
        return x.reshape(batch, heads, length, *x.shape[3:])

    out = unfolded(apply(ops.split_attention, (scores, value, *rest)))
    return Attended(
        as_dtype(out, query),
        lambda: unfolded(apply(ops.split_lse, (scores, *rest))),
        lambda: unfolded(apply(ops.split_top, (scores, *rest))),
    )


def as_dtype(x: Any, like: Any) -> Any:
    return x if x.dtype is like.dtype else x.to(like.dtype)


def _scores(
    scores: Any, value: Any, score_mod: Callable | None, block_mask: BlockMask | None,
    shape: tuple[int, ...],
) -> tuple[Any, Any]:  # fmt: skip
    """Of scaled products: (scores, what the mask keeps or None), pair values of shape (B, H, L, S)
    (without functions: of the shape that the queries have)."""
    if score_mod is None and block_mask is None and value.dtype is not torch.float64:
        return scores, None
    scores = scores.reshape(shape)
    where = [apply(ops.pair_index, (shape, dim)) for dim in range(4)]
    if score_mod is not None:
        dtype = scores.dtype
        scores = as_four_dims(score_mod(scores, *where), shape, "score_mod").to(dtype)
    if value.dtype is torch.float64:
        scores = scores.to(torch.float64)
    return scores, None if block_mask is None else kept(block_mask, where, shape, value.device)


def kept(block_mask: BlockMask, where: list, shape: tuple[int, ...], device: Any) -> Any:
    """What the mask keeps of these pairs. Its blocks count where its mask_mod alone does not say
    all: absent ones are left out and full ones kept, whatever the mask_mod says."""
    if block_mask.rows_of is not None:
        whole, offset = block_mask.rows_of
        b, h, q, kv = where
        return kept(whole, [b, h, q + offset, kv], shape, device)
    keep = as_four_dims(block_mask.mask_mod(*where), shape, "mask_mod")
    if block_mask.blocks_follow_mod:
        return keep
    b, h, q, kv = where
    states = block_mask.state_tensor(device)
    b, h = (0 if n == 1 else i for i, n in zip((b, h), states.shape[:2], strict=True))
    rows, columns = block_mask.BLOCK_SIZE
    state = states[b, h, q // rows, kv // columns]
    return (state == 2) | ((state == 1) & keep)
