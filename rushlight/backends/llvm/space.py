"""How a contraction may be cut on a CPU: the autotuner's space, as data.

In: a contraction in the form that is emitted, the schedule that `schedule.py` chose for it. Out:
schedules by name, that one first. Always true: no member changes a bit (a test runs them all):
they differ in which outputs are summed next to each other and in how many steps of k come before
the sums wait, and a chain goes on from where it waited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.schedule import DotSchedule, ThinSchedule, even_blocks
from rushlight.compiler.tile.ir import DotGrid
from rushlight.ir.symint_math import ceildiv

# (rows, vectors) of register blocks: wide ones read less of a, high ones less of b.
BLOCKS = ((14, 2), (12, 2), (8, 3), (9, 3), (6, 4), (5, 5), (4, 6), (6, 2), (4, 3), (3, 4), (8, 1))
STEPS = (128, 192, 256, 384, 512, 768, 1024)
COLUMNS = (128, 256, 384, 512, 768, 1536)
ROWS = (56, 112, 168, 256, 336, 512, 1024)
THIN_COLUMNS = (128, 256, 512, 1024, 2048)
# Blocks that are tried with all steps of k; cache blocks are tried with the first.
MOST_BLOCKS, MOST_NEAR = 4, 3

AnySchedule = DotSchedule | ThinSchedule


def name_of(s: AnySchedule) -> str:
    """In records: "rows14_vectors2_mc280_nc512_kc512"."""
    if isinstance(s, ThinSchedule):
        return f"nc{s.nc}_unroll{s.unroll}"
    return f"rows{s.rows}_vectors{s.vectors}_mc{s.mc}_nc{s.nc}_kc{s.kc}"


def space_of(grid: DotGrid, chosen: AnySchedule, target: Target) -> dict[str, AnySchedule]:
    """All that may be measured, the chosen one first; just that for windows with fewer
    multiplications, whose blocks are part of their algorithm."""
    found: list[AnySchedule] = [chosen]
    if isinstance(chosen, ThinSchedule):
        found += _thin(grid, chosen)
    elif not (grid.slides and grid.acc_dtype.is_floating_point):
        found += _wide(grid, chosen, target)
    return {name_of(s): s for s in found}


def _thin(grid: DotGrid, chosen: ThinSchedule) -> Iterator[ThinSchedule]:
    for nc in THIN_COLUMNS:
        yield replace(chosen, nc=even_blocks(grid.n.extent, nc, chosen.lanes))


def _wide(grid: DotGrid, chosen: DotSchedule, target: Target) -> Iterator[DotSchedule]:
    blocks = [chosen, *(_with_block(grid, chosen, *b) for b in _blocks(grid, chosen, target))]
    for block in blocks:
        yield block
        for kc in _steps(grid, block):
            yield replace(block, kc=kc)
    m, n = grid.m.extent, grid.n.extent
    for block in blocks[:2]:
        nears = [even_blocks(n, nc, block.columns) for nc in _near(COLUMNS, block.nc)]
        yield from (replace(block, nc=nc) for nc in nears)
        highs = [even_blocks(m, mc, block.rows) for mc in _near(ROWS, block.mc)]
        yield from (replace(block, mc=mc) for mc in highs)


def _blocks(grid: DotGrid, chosen: DotSchedule, target: Target) -> Iterable[tuple[int, int]]:
    """Other register blocks, those with the least idle lanes and turns first."""
    if chosen.tiles:
        return ()
    m, n = (x if isinstance(x, int) else 1024 for x in (grid.m.extent, grid.n.extent))

    def cost(block: tuple[int, int]) -> float:
        rows, vectors = block
        return ceildiv(m, rows) * ceildiv(n, vectors * chosen.lanes) * (rows * vectors + 1.3)

    fit = [
        (rows, vectors)
        for rows, vectors in BLOCKS
        if rows * vectors + vectors + 1 <= target.registers
        and rows <= chosen.lanes
        and (rows, vectors) != (chosen.rows, chosen.vectors)
    ]
    return sorted(fit, key=cost)[:MOST_BLOCKS]


def _with_block(grid: DotGrid, s: DotSchedule, rows: int, vectors: int) -> DotSchedule:
    made = replace(s, rows=rows, vectors=vectors)
    mc, nc = even_blocks(grid.m.extent, s.mc, rows), even_blocks(grid.n.extent, s.nc, made.columns)
    return replace(made, mc=mc, nc=nc)


def _steps(grid: DotGrid, s: DotSchedule) -> list[int]:
    """Other numbers of steps of k: whole vectors, or all there are."""
    k = grid.k.extent
    whole = [k] if isinstance(k, int) and 0 < k <= STEPS[-1] and not s.tiles else []
    shorter = [n for n in _near(STEPS, s.kc) if not isinstance(k, int) or n < k]
    return [n for n in dict.fromkeys([*whole, *shorter]) if n != s.kc]


def _near(sizes: Iterable[int], size: int) -> list[int]:
    return sorted(sizes, key=lambda other: abs(other - size))[: MOST_NEAR + 1]
