"""Where the temps of a plan lie in one arena: offsets such that live buffers never overlap.

In: for each buffer its size and the first and last region that uses it (inclusive). Out: an offset
each, and the size of the arena. Pure: the same input gives the same offsets.

Buffers are placed largest first, each in the tightest gap between those already placed that are
alive at the same time: "greedy by size for offset calculation" of Y. Pisarchyk and J. Lee,
"Efficient Memory Management for Deep Neural Net Inference" (2020). Known imperfection: it is not
optimal (the problem is NP-hard), on networks it is near the lower bound of the largest live sum.

>>> plan_memory([Lifetime(100, 0, 1), Lifetime(100, 1, 2), Lifetime(64, 2, 3)])
MemoryPlan(offsets=(0, 128, 0), arena_bytes=256)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ALIGN = 64
# Sizes are often powers of two. Large buffers in a row would then begin at the same place of every
# cache, and rows that a kernel reads of several of them drive each other out. So there is a page
# and a line of cache behind each.
LARGE = 1 << 16
APART = 4096 + 64
_NO_ROOM = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer alive from region `first` to region `last`, both included."""

    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where each buffer lies in the arena, and how large that is."""

    offsets: tuple[int, ...]
    arena_bytes: int


def plan_memory(lifetimes: Sequence[Lifetime], align: int = ALIGN) -> MemoryPlan:
    """Offsets (multiples of `align`) and the arena size."""
    for number, life in enumerate(lifetimes):
        if life.size_bytes < 0 or life.last < life.first:
            raise ValueError(f"plan_memory: buffer {number} has size or lifetime {life}")
    rooms = [_room(life.size_bytes, align) for life in lifetimes]
    offsets = _place(lifetimes, rooms)
    arena = max((at + room for at, room in zip(offsets, rooms, strict=True)), default=0)
    return MemoryPlan(tuple(offsets), arena)


def _room(size_bytes: int, align: int) -> int:
    """What a buffer takes of the arena."""
    room = -(-size_bytes // align) * align
    return room + -(-APART // align) * align if room >= LARGE else room


def _place(lifetimes: Sequence[Lifetime], rooms: Sequence[int]) -> list[int]:
    """Offsets, largest first (longer-lived first among equals), best fitting gap.

    The ranges placed so far are rows (first, last, offset, end) sorted by offset in one array:
    finding those alive with a new one is one vectorized comparison, microseconds for thousands.
    """

    def order(number: int) -> tuple[int, int, int]:
        return -rooms[number], lifetimes[number].first - lifetimes[number].last, number

    rows = np.empty((4, len(rooms)), np.int64)
    count = 0
    placed = [0] * len(rooms)
    for number in sorted(range(len(rooms)), key=order):
        life, room = lifetimes[number], rooms[number]
        if room == 0:
            continue
        busy = rows[:, :count]
        alive = (busy[0] <= life.last) & (busy[1] >= life.first)
        offset = _best_gap(busy[2][alive], busy[3][alive], room)
        at = int(busy[2].searchsorted(offset))
        rows[:, at + 1 : count + 1] = rows[:, at:count]
        rows[:, at] = (life.first, life.last, offset, offset + room)
        count += 1
        placed[number] = offset
    return placed


def _best_gap(starts: np.ndarray, ends: np.ndarray, size: int) -> int:
    """The offset of the smallest gap >= size between busy ranges; their end when there is none."""
    if not len(starts):
        return 0
    # free[i]: where the free room before range i begins (ranges of dead buffers may overlap).
    free = np.zeros(len(starts) + 1, np.int64)
    np.maximum.accumulate(ends, out=free[1:])
    room = starts - free[:-1]
    room[room < size] = _NO_ROOM
    best = int(room.argmin())
    return int(free[best if room[best] != _NO_ROOM else -1])
