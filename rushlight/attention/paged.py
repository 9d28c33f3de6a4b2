"""A cache of keys and values in pages: a sequence's pages may lie anywhere, in any order.

In: pages, and a table that says which page holds which part of each sequence. Out: tensors that
`flex_attention` takes as key and value. They are pair values (ops/pairs.py): nobody copies them
together, the kernel of attention reads rows where they lie.

Shape letters: B batch, N heads of keys, S keys, E features.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import ops
from rushlight.base.dtypes import int64
from rushlight.ir.node import const_node
from rushlight.tensors.apply import apply
from rushlight.tensors.tensor import new_tensor


def paged(pages: torch.Tensor, page_table: torch.Tensor, length: int) -> torch.Tensor:
    """The first `length` positions of sequences kept in pages, (B, N, length, E).

    pages (P, N, page size, E); page_table (B, pages per sequence), integers: position s of
    sequence b is row s % page size of page page_table[b, s // page size]. A page number out of
    range is an error when it is read.

    Example:
        >>> pages = torch.arange(6.0).reshape(3, 1, 2, 1)
        >>> paged(pages, torch.tensor([[2, 0]]), 3).reshape(-1)
        tensor([4., 5., 0.])
    """
    if pages.dim() != 4 or page_table.dim() != 2:
        raise ValueError(
            "paged: pages must be (pages, heads, page size, features) and page_table (batch, pages "
            f"per sequence), got {tuple(pages.shape)} and {tuple(page_table.shape)}"
        )
    if page_table.is_floating_point() or page_table.dtype is torch.bool:
        raise ValueError(f"paged: page_table must hold integers, got {page_table.dtype}")
    size, held = pages.size(2), pages.size(2) * page_table.size(1)
    if not 0 <= length <= held:
        raise ValueError(
            f"paged: length {length} does not fit {page_table.size(1)} pages of {size}"
        )
    shape = (page_table.size(0), pages.size(1), length)
    batch, head, position = (ops.pair_index.node(shape, dim) for dim in range(3))
    # Constants, so that the places stay affine where a page is contiguous.
    step = const_node(size, int64)
    number = new_tensor(ops.floor_divide.node(position, step))
    inside = new_tensor(ops.remainder.node(position, step))
    page = page_table.to(int64)[new_tensor(batch), number]
    return apply(ops.gather_nd, (pages, [page, new_tensor(head), inside]))


class PagedCache:
    """Pages of keys and values, and who has which.

    Example:
        >>> cache = PagedCache(pages=8, page_size=4, batch=1, heads=1, size=2)
        >>> cache.append(0, torch.ones(1, 5, 2), torch.zeros(1, 5, 2))
        >>> cache.key(5).shape, cache.lengths
        (torch.Size([1, 1, 5, 2]), [5])
    """

    def __init__(
        self, pages: int, page_size: int, batch: int, heads: int, size: int,
        value_size: int | None = None, dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        """`pages` are shared by `batch` sequences; each head has `size` features."""
        if min(pages, page_size, batch, heads) < 1:
            raise ValueError(
                f"PagedCache: pages, page_size, batch and heads must be positive, got {pages}, "
                f"{page_size}, {batch}, {heads}"
            )
        wide = size if value_size is None else value_size
        self.page_size, self.free = page_size, list(range(pages - 1, -1, -1))
        self.keys = torch.zeros(pages, heads, page_size, size, dtype=dtype)
        self.values = torch.zeros(pages, heads, page_size, wide, dtype=dtype)
        self.pages: list[list[int]] = [[] for _ in range(batch)]
        self.lengths = [0] * batch
        self.table = torch.zeros(batch, pages, dtype=torch.int64)

    def append(self, sequence: int, key: torch.Tensor, value: torch.Tensor) -> None:
        """Keys and values (N, positions, features) at the end of a sequence."""
        start, count = self.lengths[sequence], key.size(1)
        self._reserve(sequence, start + count)
        place = torch.arange(start, start + count)
        page = self.table[sequence, place // self.page_size]
        for pages, new in ((self.keys, key), (self.values, value)):
            pages[page, :, place % self.page_size] = new.transpose(0, 1).to(pages.dtype)
        self.lengths[sequence] = start + count

    def _reserve(self, sequence: int, length: int) -> None:
        mine = self.pages[sequence]
        missing = -(-length // self.page_size) - len(mine)
        if missing > len(self.free):
            raise RuntimeError(
                f"PagedCache: {missing} pages are needed for {length} positions of sequence "
                f"{sequence}, {len(self.free)} are free"
            )
        for _ in range(missing):
            self.table[sequence, len(mine)] = self.free[-1]
            mine.append(self.free.pop())

    def release(self, sequence: int) -> None:
        """The sequence is done: its pages are free."""
        self.free += reversed(self.pages[sequence])
        self.pages[sequence], self.lengths[sequence] = [], 0

    def key(self, length: int | None = None) -> torch.Tensor:
        """Keys (B, N, length, size) for flex_attention; the longest sequence's length by default.
        What lies behind the end of a sequence must be masked."""
        return self._view(self.keys, length)

    def value(self, length: int | None = None) -> torch.Tensor:
        """Values, as `key`."""
        return self._view(self.values, length)

    def _view(self, pages: torch.Tensor, length: int | None) -> torch.Tensor:
        length = max(self.lengths) if length is None else length
        return paged(pages, self.table, length)
