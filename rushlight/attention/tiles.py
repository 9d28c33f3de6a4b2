"""How the score matrix is cut into tiles that are computed one after another.

In: sizes and the states of the blocks of a mask. Out: tiles in a fixed order; each is a range of
batches, of heads of keys, of queries, and the range of keys its queries see.
Always true: a tile has at most SCORES_AT_ONCE scores (one query row of one head may have more).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

SCORES_AT_ONCE = 1 << 22  # 16 MiB of float32
ROWS_WANTED = 128  # fewer queries make thin products, more see keys that they do not need
LENGTHS_PER_MASK = 8  # key ranges are rounded up, so that few programs serve all tiles


@dataclass(frozen=True)
class Tile:
    """Half-open ranges."""

    batch: tuple[int, int]
    kv_heads: tuple[int, int]
    rows: tuple[int, int]
    keys: tuple[int, int]
    all_full: bool = False  # no element of the tile is masked

    @property
    def slices(self) -> tuple[slice, slice, slice, slice]:
        return tuple(slice(*r) for r in (self.batch, self.kv_heads, self.rows, self.keys))


@dataclass(frozen=True)
class Sizes:
    """batch, heads of keys, queries heads per key head, queries, keys."""

    batch: int
    kv_heads: int
    group: int
    rows: int
    keys: int


def plan_tiles(sizes: Sizes, states: np.ndarray | None, block_size: tuple[int, int]) -> list[Tile]:
    """Tiles in order of rows, batches, heads. Rows that see no key have no tile."""
    if 0 in (sizes.batch, sizes.kv_heads, sizes.group, sizes.rows, sizes.keys):
        return []
    tiles: list[Tile] = []
    for rows, keys, full in _bands(sizes, states, block_size):
        tiles += _split_heads(sizes, rows, keys, full)
    return tiles


def _bands(
    sizes: Sizes, states: np.ndarray | None, block_size: tuple[int, int]
) -> Iterator[tuple[tuple[int, int], tuple[int, int], bool]]:
    """Ranges of rows with the keys they see."""
    if states is None:
        heads = sizes.batch * sizes.kv_heads * sizes.group
        step = max(ROWS_WANTED, SCORES_AT_ONCE // (heads * sizes.keys))
        for start in range(0, sizes.rows, step):
            yield (start, min(start + step, sizes.rows)), (0, sizes.keys), True
        return
    present = states.max(axis=(0, 1)) > 0
    full = states.min(axis=(0, 1)) == 2
    step = max(1, ROWS_WANTED // block_size[0])
    for first in range(0, present.shape[0], step):
        columns = np.flatnonzero(present[first : first + step].any(axis=0))
        rows = (first * block_size[0], min((first + step) * block_size[0], sizes.rows))
        if columns.size == 0 or rows[0] >= rows[1]:
            continue
        low, high = columns[0] * block_size[1], (columns[-1] + 1) * block_size[1]
        keys = _rounded(int(low), min(int(high), sizes.keys), sizes.keys)
        touched = slice(keys[0] // block_size[1], -(-keys[1] // block_size[1]))
        yield rows, keys, bool(full[first : first + step, touched].all())


def _rounded(low: int, high: int, length: int) -> tuple[int, int]:
    """A range of a rounded length around it, inside 0...length."""
    unit = max(1, -(-length // LENGTHS_PER_MASK))
    size = high - low
    # Short ranges (windows) are equally long anyway, but for the first and last tiles.
    size = min(-(-size // unit) * unit if size > unit else size, length)
    low = min(low, length - size)
    return low, low + size


def _split_heads(
    sizes: Sizes, rows: tuple[int, int], keys: tuple[int, int], full: bool
) -> Iterator[Tile]:
    """Batches and heads together as long as they fit; then fewer heads, then fewer rows."""
    per_head = sizes.group * (rows[1] - rows[0]) * (keys[1] - keys[0])
    fitting = max(1, SCORES_AT_ONCE // per_head)
    heads = min(sizes.kv_heads, fitting)
    batches = max(1, min(sizes.batch, fitting // heads)) if heads == sizes.kv_heads else 1
    step = max(1, min(rows[1] - rows[0], SCORES_AT_ONCE // (sizes.group * (keys[1] - keys[0]))))
    for b in range(0, sizes.batch, batches):
        for h in range(0, sizes.kv_heads, heads):
            for r in range(rows[0], rows[1], step):
                yield Tile(
                    (b, min(b + batches, sizes.batch)),
                    (h, min(h + heads, sizes.kv_heads)),
                    (r, min(r + step, rows[1])),
                    keys,
                    full,
                )
