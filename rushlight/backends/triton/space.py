"""How products and attention may be cut on a GPU: the autotuner's space, as data.

In: a grid. Out: schedules. Always true: a schedule never changes bits, but for the order that
`tl.dot` has inside of one tile; the first of a space is what is taken where nothing is measured.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

from rushlight.backends.cfamily.bounds import at_most
from rushlight.backends.cfamily.context import Index
from rushlight.compiler.tile import ir

LEAST, MOST = 16, 128


class _Named:
    """A schedule's name in records: "bm128_bn64_bk32_warps4_stages3"."""

    @property
    def name(self) -> str:
        """Every field and its number, in a line."""
        return "_".join(f"{f.name}{v}" for f, v in zip(fields(self), astuple(self), strict=True))  # type: ignore[arg-type, call-overload]

    @property
    def threads(self) -> int:
        """Of a program, on a GPU with warps of 32."""
        return 32 * self.warps  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True)
class Schedule(_Named):
    """A program computes bm x bn outputs, bk products of each at a time, and fetches `stages`
    pieces ahead."""

    bm: int = 64
    bn: int = 64
    bk: int = 32
    warps: int = 4
    stages: int = 3


@dataclass(frozen=True)
class FlashSchedule(_Named):
    """A program has `rows` owners."""

    rows: int = 32
    warps: int = 4
    stages: int = 3


AnySchedule = Schedule | FlashSchedule

DOT_SPACE = (
    Schedule(128, 128, 32, 8, 3), Schedule(128, 128, 64, 8, 3), Schedule(128, 128, 64, 8, 4),
    Schedule(128, 128, 32, 4, 4), Schedule(128, 64, 64, 4, 3), Schedule(64, 128, 64, 4, 3),
    Schedule(128, 32, 32, 4, 4), Schedule(32, 128, 32, 4, 4), Schedule(64, 64, 64, 4, 3),
    Schedule(64, 64, 32, 4, 2), Schedule(64, 32, 32, 2, 5), Schedule(32, 64, 32, 2, 5),
    Schedule(128, 128, 32, 8, 1), Schedule(64, 64, 32, 4, 1),
)  # fmt: skip
# One stage, two, three: fetching ahead pays on some chips and not on others.
FLASH_SPACE = tuple(
    FlashSchedule(rows, warps, stages)
    for rows, warps in ((32, 4), (64, 4), (64, 8), (16, 2))
    for stages in (3, 2, 1)
)


def fitted(extent: Index, most: int) -> int:
    """A power of two that holds the extent, within limits."""
    known = at_most(extent)
    size = LEAST
    while size < most and (not isinstance(known, int) or size < known):
        size *= 2
    return size


def default_schedule(grid: ir.DotGrid) -> Schedule:
    """How a product is cut where nothing is measured: no larger than it is."""
    most = MOST if grid.acc_dtype.itemsize == 4 else MOST // 2
    bm, bn = fitted(grid.m.extent, most), fitted(grid.n.extent, most)
    warps = 8 if bm * bn >= MOST * MOST else 4
    return Schedule(bm, bn, fitted(grid.k.extent, 32), warps)


def space_of(grid: ir.DotGrid | ir.AttentionGrid) -> list[AnySchedule]:
    """All that may be measured for a grid: no tile is larger than the default one would need."""
    if isinstance(grid, ir.AttentionGrid):
        return list(FLASH_SPACE)
    first = default_schedule(grid)
    deepest = fitted(grid.k.extent, 64)
    fits = [s for s in DOT_SPACE if s.bm <= first.bm and s.bn <= first.bn and s.bk <= deepest]
    return list(dict.fromkeys([first, *fits]))
