"""A 0/1 matrix of blocks as text: two characters a cell."""

from __future__ import annotations

import itertools

import numpy as np

ALL, SOME, NONE = "██", "░░", "  "


MORE = (
    "...\n"
    "To print out more, set BlockMask.to_string(limit=N)\n"
    "You can also index (BlockMask[batch, head]) to choose a specific batch or head"
)


def pictures(present: np.ndarray, grid_size: int | tuple[int, int], limit: int) -> str:
    """One picture for each of the first `limit` leading indices."""
    texts = []
    for number, index in enumerate(itertools.product(*map(range, present.shape[:-2]))):
        if number == limit:
            texts.append(MORE)
            break
        texts.append(f"{index}\n{picture(present[index], grid_size)}")
    return "\n".join(texts)


def picture(present: np.ndarray, grid_size: int | tuple[int, int]) -> str:
    """Cells of equal steps, at most `grid_size` of them each way (-1: one per block)."""
    rows, columns = present.shape
    largest = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
    row_step = max(1, -(-rows // largest[0]))
    column_step = max(1, -(-columns // largest[1]))
    text = ""
    for r in range(0, rows, row_step):
        for c in range(0, columns, column_step):
            cell = present[r : r + row_step, c : c + column_step]
            text += ALL if cell.all() else SOME if cell.any() else NONE
        text += "\n"
    return text
