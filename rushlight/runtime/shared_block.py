"""Memory for values that live and die together: small ones share a block.

In: numbers of bytes. Out: buffers of their own. Always true: a buffer keeps the memory of its
neighbours, at most `SHARED_BYTES` of it, since a block is not larger.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.runtime.allocator import ALIGN
from rushlight.runtime.buffer import Buffer, allocate

SMALL_BYTES = 1 << 14  # larger values get a block for themselves
SHARED_BYTES = 1 << 16


class SharedBlock:
    """`values`: (position, number of bytes) of each, in the lists that `take` fills."""

    def __init__(self, values: Iterable[tuple[int, int]]) -> None:
        self.small: list[tuple[int, list[tuple[int, int, int]]]] = []
        self.large: list[tuple[int, int]] = []
        total, block = 0, []
        for position, nbytes in values:
            room = -(-nbytes // ALIGN) * ALIGN
            if nbytes > SMALL_BYTES:
                self.large.append((position, nbytes))
                continue
            if total + room > SHARED_BYTES:
                self.small.append((total, block))
                total, block = 0, []
            block.append((position, nbytes, total))
            total += room
        if block:
            self.small.append((total, block))

    def take(self, buffers: list[Any]) -> None:
        """Put new memory in the places of the values."""
        for total, values in self.small:
            block = allocate(total)
            start = block.address
            for position, nbytes, offset in values:
                buffers[position] = Buffer(start + offset, nbytes, block, False)
        for position, nbytes in self.large:
            buffers[position] = allocate(nbytes)
