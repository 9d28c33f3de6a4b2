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
from rushlight.attention.divide import as_four_dims
from rushlight.tensors.apply import apply


@dataclass(frozen=True)
class Attended:
    """out (B, H, L, Ev) in the dtype of the query; lse (B, H, L); scores: the masked ones."""

    out: torch.Tensor
    lse: torch.Tensor
    scores: torch.Tensor

    def top(self) -> torch.Tensor:
        """The largest score of every query."""
        return apply(ops.flash_top, (self.scores,))


def attention(
    query: Any, key: Any, value: Any, score_mod: Callable | None, block_mask: BlockMask | None,
    scale: float,
) -> Attended:  # fmt: skip
    """All tensors have four dims and one batch size; heads of keys divide those of queries."""
    key, value = (_for_each_head(x, query.size(1)) for x in (key, value))
    working = torch.float64 if value.dtype is torch.float64 else torch.float32
    scores = apply(ops.pair_dot, (query, key)) * scale
    shape = tuple(scores.shape)
    where = [apply(ops.pair_index, (shape, dim)) for dim in range(4)]
    if score_mod is not None:
        dtype = scores.dtype
        scores = as_four_dims(score_mod(scores, *where), shape, "score_mod").to(dtype)
    if working is torch.float64:
        scores = scores.to(working)
    if block_mask is not None and not block_mask.keeps_all():
        keep = kept(block_mask, where, shape)
        needs_grad = scores.requires_grad or (torch.is_grad_enabled() and value.requires_grad)
        tables = block_mask.tables(of_keys=needs_grad)
        scores = apply(ops.pair_mask, (scores, keep, tables, False, "minus"))
    lse = apply(ops.flash_lse, (scores,))
    out = apply(ops.flash_attention, (scores, value, lse))
    return Attended(out.to(query.dtype), lse, scores)


def _for_each_head(x_BNSE: Any, heads: int) -> Any:  # noqa: N803
    """(B, N, S, E) -> (B, H, S, E): the queries of a group share their keys. No copy is made."""
    batch, kv_heads, keys, size = x_BNSE.shape
    if kv_heads == heads:
        return x_BNSE
    shared = x_BNSE.unsqueeze(2).expand(batch, kv_heads, heads // kv_heads, keys, size)
    return shared.reshape(batch, heads, keys, size)


def kept(block_mask: BlockMask, where: list, shape: tuple[int, ...]) -> Any:
    """What the mask keeps of these pairs. Its blocks count where its mask_mod alone does not say
    all: absent ones are left out and full ones kept, whatever the mask_mod says."""
    keep = as_four_dims(block_mask.mask_mod(*where), shape, "mask_mod")
    if block_mask.blocks_follow_mod:
        return keep
    b, h, q, kv = where
    states = block_mask.state_tensor()
    b, h = (0 if n == 1 else i for i, n in zip((b, h), states.shape[:2], strict=True))
    rows, columns = block_mask.BLOCK_SIZE
    state = states[b, h, q // rows, kv // columns]
    return (state == 2) | ((state == 1) & keep)
