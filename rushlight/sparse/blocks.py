"""Layouts of blocks: "bsr" and "bsc", compressed rows or columns of small dense blocks.

Their values are (count, block rows, block columns); pointers and indices count blocks. Everything
but the parts themselves goes through the coordinates of the elements.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.sparse.tensor import SparseTensor, make


def block_of(x: SparseTensor) -> tuple[int, int] | None:
    """The size of the blocks; None in a layout without blocks."""
    return tuple(x.vals.shape[1:3]) if x.kind in ("bsr", "bsc") else None


def elements(x: SparseTensor, rows: Any, columns: Any) -> SparseTensor:
    """The coordinate layout of blocks at these rows and columns of blocks."""
    height, width = x.vals.shape[1:3]
    line, column = (torch.arange(n, device=x.device) for n in (height, width))
    down = (rows * height).reshape(-1, 1, 1) + line.unsqueeze(1)
    across = (columns * width).reshape(-1, 1, 1) + column
    where = torch.stack([part.expand(x.vals.shape[:3]).flatten() for part in (down, across)])
    return make("coo", (where,), x.vals.flatten(0, 2), x._shape)


def check_block(size: Any, block: Any) -> tuple[int, int]:
    """The block size, if it divides the matrix."""
    if block is None:
        raise RuntimeError("to_sparse: a layout of blocks needs blocksize=(rows, columns)")
    height, width = (int(side) for side in block)
    if min(height, width) < 1 or size[0] % height or size[1] % width:
        raise RuntimeError(
            f"tensor sparse size ({size[0]}, {size[1]}) must be divisible by given blocksize "
            f"({height}, {width})"
        )
    return height, width


def gathered(x: SparseTensor, block: Any) -> SparseTensor:
    """From a coalesced matrix of elements, the coordinates of its blocks, values (count, h, w)."""
    height, width = check_block(x._shape, block)
    (rows, columns), size = x.index[0].unbind(0), [x._shape[0] // height, x._shape[1] // width]
    across = max(size[1], 1)
    place = (rows // height) * across + columns // width
    blocks, at = torch.unique(place, return_inverse=True)
    inside = (rows % height) * width + columns % width
    flat = torch.zeros(blocks.shape[0] * height * width, dtype=x.dtype, device=x.device)
    values = flat.index_add(0, at * (height * width) + inside, x.vals)
    where = torch.stack([blocks // across, blocks % across])
    return make("coo", (where,), values.reshape(-1, height, width), size, True)
