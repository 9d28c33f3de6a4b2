"""The tables of a mask that kernels read (ops/pairs [tables]), from runs of small cells.

In: runs of cells of CELL x CELL elements. Out: for each block of PAIR_ROWS rows its spans of tiles
of PAIR_TILE columns, and their code: two bits for each cell of the block and the tile: 0 absent,
1 partial, 2 full.
"""

from __future__ import annotations

import numpy as np

from rushlight.attention.runs import Rects, Runs, joined, regridded, runs_of
from rushlight.ops.pairs import PAIR_GROUP, PAIR_PART, PAIR_ROWS, PAIR_TILE

CELL = PAIR_GROUP
GROUPS, HALVES = PAIR_ROWS // CELL, PAIR_TILE // CELL
assert HALVES == 2 and PAIR_PART == CELL, "a tile is two cells wide"


def cells_of_blocks(
    runs: Runs, size: tuple[int, int], lengths: tuple[int, int], turned: bool = False
) -> Runs:
    """Blocks as cells; columns become rows when `turned`."""
    if turned:
        runs, size, lengths = runs.transposed(), size[::-1], lengths[::-1]
    return regridded(runs, size, lengths, (CELL, CELL))


def cells_of_rects(
    rects: Rects, lead: tuple[int, ...], lengths: tuple[int, int], turned: bool = False
) -> Runs:
    """Rectangles of cells as runs, for all leading indices."""
    rows, columns = (-(-n // CELL) for n in (lengths[::-1] if turned else lengths))
    return (rects.transposed() if turned else rects).runs((*lead, rows, columns))


def spans_of(cells: Runs) -> tuple[np.ndarray, np.ndarray]:
    """(starts (B, H, R + 1), spans (n, 3) of first, stop, code), int32.

    At least two spans, so that their number stays an ordinary size."""
    batch, heads, queries, keys = cells.shape
    blocks, tiles = -(-queries // GROUPS), -(-keys // HALVES)
    row = cells.row_of_each()
    lead, row = row // max(1, queries), row % max(1, queries)
    stop = np.where(cells.stop == keys, tiles * HALVES, cells.stop)
    # Four bits for each group of rows: two for the left and two for the right cell of a tile.
    left = (-(-cells.first // 2), -(-stop // 2))
    right = (cells.first // 2, stop // 2)
    kind = (1 + cells.full).astype(np.int64)
    block, shift = lead * blocks + row // GROUPS, 4 * (row % GROUPS)
    events = []
    for (first, last), bits in ((left, 0), (right, 2)):
        value = kind << (shift + bits)
        kept = first < last
        events += [(block[kept], first[kept], value[kept]), (block[kept], last[kept], -value[kept])]
    block, column, value = (np.concatenate(parts) for parts in zip(*events, strict=True))
    order = np.lexsort((column, block))
    block, column, code = block[order], column[order], np.cumsum(value[order])
    last = np.ones(len(block), bool)
    last[:-1] = (block[1:] != block[:-1]) | (column[1:] != column[:-1])
    block, first, code = block[last], column[last], code[last]
    return _as_tables((batch, heads, blocks), block, first, code)


def cells_of_rows(cells: Runs, offset: int, count: int, columns: int) -> Runs:
    """Rows of cells for the rows offset ... offset + count - 1 of a mask, which start at a cell's
    edge now: each new cell is full where all cells that it touches are."""
    step, parts = cells.shape[2], []
    starts = range(offset, offset + count, CELL)
    for lead in range(cells.shape[0] * cells.shape[1]):
        for row in starts:
            last = min(row + CELL, offset + count) - 1
            here = lead * step + row // CELL, lead * step + last // CELL + 1
            band = cells.band(0, columns, *here)
            merged = np.where(band.min(0) == 2, 2, band.max(0) > 0).astype(np.int8)
            parts.append(runs_of(merged[None, None, None]))
    return joined(parts, (*cells.shape[:2], len(starts), columns))


def _as_tables(
    shape: tuple[int, int, int], block: np.ndarray, first: np.ndarray, code: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours of one code become one span; code 0 is none."""
    new = np.ones(len(block), bool)
    new[1:] = (block[1:] != block[:-1]) | (code[1:] != code[:-1])
    block, first, code = block[new], first[new], code[new]
    ends = np.append(first[1:], 0)
    kept = code > 0
    block, first, stop, code = block[kept], first[kept], ends[kept], code[kept]
    batch, heads, blocks = shape
    counts = np.bincount(block, minlength=batch * heads * blocks)
    starts = np.concatenate(([0], np.cumsum(counts)))
    at = np.arange(batch * heads)[:, None] * blocks + np.arange(blocks + 1)
    spans = np.zeros((max(2, len(first)), 3), np.int32)
    spans[: len(first)] = np.stack((first, stop, code), axis=1)
    return starts[at].astype(np.int32).reshape(batch, heads, -1), spans
