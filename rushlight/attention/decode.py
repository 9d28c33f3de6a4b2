"""Few queries against many keys (ops/split_attention.py): when, with which rows and which tables.

Queries that share their keys become rows of one matrix, so each key is read once. The tables say
which tiles of keys each partition has.

Shape letters: as in compute.py, and P partitions, R = G L rows of a head of keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as torch
from rushlight.attention.block_mask import BlockMask, ceil_div
from rushlight.ops.pairs import PAIR_TILE

PARTITION = 512
MOST_QUERIES = 16
MOST_ROWS = 64
# Times the bits of a group: the code of a span in which every group of rows is so.
ALL_GROUPS, ONE_GROUP, MASKED = 0x1111, 0xF, 0x5


def fits_decoding(query: Any, key: Any) -> bool:
    """Few rows, and some keys."""
    rows = query.size(2) * (query.size(1) // max(1, key.size(1)))
    return 0 < query.size(2) <= MOST_QUERIES and rows <= MOST_ROWS and key.numel() > 0


def rows_of_groups(query: Any, kv_heads: int) -> Any:
    """(B, H, L, E) -> (B, N, R, E)."""
    batch, heads, length, size = query.shape
    return query.reshape(batch, kv_heads, heads // kv_heads * length, size)


def tables_of(
    block_mask: BlockMask | None, keys: int, partition: int, device: Any
) -> list[torch.Tensor]:
    """The tables of the partitions, kept with the mask; none without a mask."""
    if block_mask is None:
        return []
    return block_mask.made(
        ("partitions", partition, device),
        lambda: [
            torch.tensor(table, device=device)
            for table in partition_tables(block_mask, keys, partition)
        ],
    )


def partition_tables(
    block_mask: BlockMask, keys: int, partition: int
) -> tuple[np.ndarray, np.ndarray]:
    """starts (B, 1, P, 2) and spans: the tiles of each partition in which keys can be kept."""
    count, tiles = ceil_div(keys, partition), ceil_div(keys, PAIR_TILE)
    starts, found = (table.numpy() for table in block_mask.tables(of_keys=False))
    if starts.shape[1] > 1:  # heads that share keys see different ones: the mask decides
        starts, found = np.array([[[0, 1]]]), np.array([[0, tiles, MASKED]])
    lead = [*starts[:, 0, 0].tolist(), int(starts[-1, 0, -1])]
    spans = np.concatenate((found[:, :2], (found[:, 2:] & ONE_GROUP) * ALL_GROUPS), axis=1)
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
