"""Where the bytes come from: aligned blocks, kept for reuse, given back when too many lie idle.

Gets a number of bytes, gives a `Block` (address, capacity). Small blocks come from numpy (malloc)
and are aligned to 64 bytes; blocks of BIG bytes and more are private memory maps, aligned to 2 MiB
and marked for huge pages where the system has them. A capacity is one of eight size classes per
power of two, so at most 1/8 is wasted and a block fits the next request of about its size.

Always true: bytes in use + bytes cached <= SLACK * (recent peak of bytes in use) + FLOOR, after
every return (small blocks may wait to be filed). The recent peak is that of the last WINDOW to
2 * WINDOW big allocations, so a training loop that frees everything between steps keeps its memory,
and one that became smaller gives memory back. A block may be returned at any moment, also by the
garbage collector in the middle of `take`: returned blocks go through a queue, never straight into
the tables.
"""

from __future__ import annotations

import functools
import mmap
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rushlight.base.errors import OutOfMemoryError
from rushlight.base.fork import hold_over_fork

ALIGN = 64
BIG = 2 << 20
FLOOR = 64 << 20
# Blocks of up to SMALL bytes wait in the queue of returned ones, at most QUEUE of them: the next
# request of that size takes the last one straight from there. They count as in use meanwhile.
SMALL = 1 << 16
QUEUE = 64
SLACK = 1.25
WINDOW = 256


@dataclass(slots=True, eq=False)
class Block:
    """Memory at `address`; `owner` is the Python object that keeps it mapped."""

    address: int
    capacity: int
    owner: Any


@functools.lru_cache(4096)
def size_class(nbytes: int) -> int:
    """The capacity given for a request: the next of eight steps per power of two."""
    if nbytes <= ALIGN:
        return ALIGN
    step = max(ALIGN, 1 << max(0, (nbytes - 1).bit_length() - 4))
    return -(-nbytes // step) * step


class Extra(Protocol):
    """Holds memory that makes things faster, and is done without when it is short."""

    def clear(self) -> None:
        """Let go of it; called with the allocator's lock held, too, so it never waits."""

    def nbytes(self) -> int:
        """How much it holds."""
        ...


class Allocator:
    """A caching allocator. All public methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._returned: deque[Block] = deque()
        self._free: dict[int, list[Block]] = {}
        self.in_use = 0
        self.cached = 0
        self.peak = 0
        self._window = [0, 0]
        self._big_takes = 0
        self._extras: list[Extra] = []

    def add_extra(self, extra: Extra) -> None:
        """Who holds memory that can be done without."""
        self._extras.append(extra)

    def take(self, nbytes: int) -> Block:
        """A block of at least `nbytes`. Its contents are whatever was there before."""
        if nbytes < 0:
            raise ValueError(f"allocate: nbytes must be >= 0, got {nbytes}")
        capacity = size_class(nbytes)
        if capacity <= SMALL:
            # Without the lock: nothing that is counted changes.
            try:
                block = self._returned.pop()
                if block.capacity == capacity:
                    return block
                self._returned.append(block)
            except IndexError:
                pass
        with self._lock:
            if self._returned:
                self._drain()
            return self._take(nbytes, capacity)

    def take_all(self, sizes: Sequence[int]) -> list[Block]:
        """A block for each size; none is lost if one cannot be had."""
        blocks: list[Block] = []
        with self._lock:
            self._drain()
            try:
                for nbytes in sizes:
                    blocks.append(self._take(nbytes, size_class(nbytes)))
            except BaseException:
                self._returned.extend(blocks)
                raise
        return blocks

    def give(self, block: Block) -> None:
        """Return a block. Never blocks: whoever holds the lock (or comes next) files it."""
        returned = self._returned
        returned.append(block)
        if block.capacity <= SMALL and len(returned) <= QUEUE:
            return
        if self._lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._lock.release()

    def empty_cache(self) -> None:
        """Give every idle block back to the system."""
        for extra in self._extras:
            extra.clear()
        with self._lock:
            self._drain()
            self._trim(0)

    def stats(self) -> dict[str, int]:
        packed = sum(extra.nbytes() for extra in self._extras)
        with self._lock:
            self._drain()
            return {
                "memory_allocated": self.in_use,
                "max_memory_allocated": self.peak,
                "memory_cached": self.cached,
                "packed_weights": packed,
            }

    def reset_peak(self) -> None:
        with self._lock:
            self._drain()
            self.peak = self.in_use

    def survive_forks(self) -> Allocator:
        """This allocator; no other thread is inside when a process forks, so that the child
        inherits whole tables."""
        hold_over_fork(self._lock)
        return self

    def _take(self, nbytes: int, capacity: int) -> Block:
        """An idle block of this capacity or a new one, counted (with the lock held)."""
        found = self._free.get(capacity)
        if found:
            block = found.pop()
            self.cached -= capacity
        else:
            block = self._make(nbytes, capacity)
        self._count(capacity)
        return block

    def _count(self, capacity: int) -> None:
        self.in_use += capacity
        self.peak = max(self.peak, self.in_use)
        if capacity >= BIG:
            self._big_takes += 1
            if self._big_takes % WINDOW == 0:
                self._window = [self._window[1], 0]
        self._window[1] = max(self._window[1], self.in_use)

    def _make(self, nbytes: int, capacity: int) -> Block:
        """New memory; when there is none, once more after giving back what lies idle."""
        try:
            return _new_block(capacity)
        except (MemoryError, OSError, OverflowError, ValueError):
            cached = self.cached
            for extra in self._extras:
                extra.clear()
            self._drain()
            self._trim(0)
        try:
            return _new_block(capacity)
        except (MemoryError, OSError, OverflowError, ValueError) as error:
            raise OutOfMemoryError(nbytes, self.in_use, cached) from error

    def _drain(self) -> None:
        """File returned blocks (with the lock held), then keep the bound."""
        returned = self._returned
        while returned:
            try:
                block = returned.popleft()
            except IndexError:  # `take` had it
                break
            self.in_use -= block.capacity
            self.cached += block.capacity
            self._free.setdefault(block.capacity, []).append(block)
        limit = int(SLACK * max(self._window)) + FLOOR - self.in_use
        if self.cached > limit:
            self._trim(limit)

    def _trim(self, limit: int) -> None:
        """Drop idle blocks, largest first, until at most `limit` bytes are cached."""
        for capacity in sorted(self._free, reverse=True):
            blocks = self._free[capacity]
            while blocks and self.cached > limit:
                # The oldest of its size: the last one is the warmest in the caches.
                del blocks[0]
                self.cached -= capacity
            if not blocks:
                del self._free[capacity]
            if self.cached <= limit:
                return


def _new_block(capacity: int) -> Block:
    if capacity >= BIG and hasattr(mmap, "MAP_ANONYMOUS"):
        return _map_block(capacity)
    memory = np.empty(capacity + ALIGN, np.uint8)
    address = int(memory.ctypes.data)
    return Block(-(-address // ALIGN) * ALIGN, capacity, memory)


def _map_block(capacity: int) -> Block:
    # The extra BIG bytes let the start be aligned; pages never touched cost no memory.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, capacity + BIG, flags=flags)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass  # A kernel without huge pages: small ones are right, only slower.
    address = int(np.frombuffer(memory, np.uint8).ctypes.data)
    return Block(-(-address // BIG) * BIG, capacity, memory)


DEFAULT = Allocator().survive_forks()
