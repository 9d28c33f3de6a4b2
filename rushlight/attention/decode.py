"""Few queries against many keys: the keys are split into partitions, which are joined at the end.

In: query, key, value, the functions, as `compute.attention` takes them. Out: the same. Queries that
share their keys become rows of one matrix, so each key is read once; a partition of keys is a batch
element of its own, so all threads have work. Partitions have a fixed size and are joined in
ascending order: the bits depend on neither threads nor the length of the cache that follows.

Shape letters: as in compute.py, and P partitions, R = G L rows of a head of keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as torch
from rushlight import ops
from rushlight.attention.block_mask import BlockMask, ceil_div
from rushlight.ops.pairs import PAIR_TILE
from rushlight.tensors.apply import apply

PARTITION = 512
MOST_QUERIES = 16
MOST_ROWS = 64
ALL_GROUPS = 0b01010101  # times a kind: the code of a span in which every group of rows is so


def is_decoding(query: Any, key: Any, partition: int) -> bool:
    """Few rows, more than one partition, and no gradient to be taken."""
    rows = query.size(2) * (query.size(1) // max(1, key.size(1)))
    few = 0 < query.size(2) <= MOST_QUERIES and rows <= MOST_ROWS and key.numel() > 0
    return few and key.size(2) > partition


def rows_of_groups(query: Any, kv_heads: int) -> Any:
    """(B, H, L, E) -> (B, N, R, E)."""
    batch, heads, length, size = query.shape
    return query.reshape(batch, kv_heads, heads // kv_heads * length, size)


def split(
    scores_BNRS: Any, keep_BNRS: Any, value: Any, block_mask: BlockMask | None, partition: int,  # noqa: N803
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(out (B, N, R, V), lse (B, N, R), largest score) of masked partitions, joined."""
    batch, kv_heads, rows, keys = scores_BNRS.shape
    count = ceil_div(keys, partition)
    shape = (batch, kv_heads, count, rows, keys)
    inside = apply(ops.pair_index, (shape, 4)) // partition == apply(ops.pair_index, (shape, 2))
    if keep_BNRS is not None:
        inside = inside & keep_BNRS.unsqueeze(2)
    scores = scores_BNRS.unsqueeze(2).expand(shape)
    tables = [torch.tensor(table) for table in partition_tables(block_mask, keys, partition)]
    scores = apply(ops.pair_mask, (scores, inside, tables, False, "minus"))
    lse_BNPR = apply(ops.flash_lse, (scores,))
    out = apply(ops.flash_attention, (scores, value.unsqueeze(2), lse_BNPR))
    return joined(out, lse_BNPR, apply(ops.flash_top, (scores,)))


def joined(out_BNPRV: Any, lse_BNPR: Any, top_BNPR: Any) -> tuple[Any, Any, Any]:  # noqa: N803
    """What the partitions are together."""
    most = lse_BNPR.amax(2, keepdim=True)
    share = torch.exp(lse_BNPR - torch.where(torch.isneginf(most), 0.0, most))
    total = share.sum(2)
    out = (out_BNPRV * share.unsqueeze(-1)).sum(2)
    out = out / torch.where(total == 0, 1.0, total).unsqueeze(-1)
    return out, most.squeeze(2) + torch.log(total), top_BNPR.amax(2)


def partition_tables(
    block_mask: BlockMask | None, keys: int, partition: int
) -> tuple[np.ndarray, np.ndarray]:
    """starts (B, 1, P, 2) and spans: the tiles of each partition in which keys can be kept."""
    count, tiles = ceil_div(keys, partition), ceil_div(keys, PAIR_TILE)
    if block_mask is None:
        lead, spans = [0, 1], np.array([[0, tiles, 2 * ALL_GROUPS]])
    else:
        starts, found = (table.numpy() for table in block_mask.tables(of_keys=False))
        if starts.shape[1] > 1:  # heads that share keys see different ones: the mask decides
            starts, found = np.array([[[0, 1]]]), np.array([[0, tiles, 1]])
        lead = [*starts[:, 0, 0].tolist(), int(starts[-1, 0, -1])]
        spans = np.concatenate((found[:, :2], (found[:, 2:] & 3) * ALL_GROUPS), axis=1)
    size, starts, parts = partition // PAIR_TILE, [0], []
    for low, high in zip(lead[:-1], lead[1:], strict=True):
        for number in range(count):
            first, stop, code = spans[low:high].T
            first, stop = np.maximum(first, number * size), np.minimum(stop, (number + 1) * size)
            parts.append(np.stack((first, stop, code), axis=1)[first < stop])
            starts.append(starts[-1] + len(parts[-1]))
    joint = np.concatenate(parts).astype(np.int32)
    at = np.arange(len(lead) - 1)[:, None] * count + np.arange(count)
    table = np.array(starts, np.int32)
    pairs = np.stack((table[at], table[at + 1]), axis=-1)[:, None]
    padded = np.zeros((max(2, len(joint)), 3), np.int32)
    padded[: len(joint)] = joint
    return pairs, padded
