"""Which side of a contraction the vectors lie along: m and n may change places.

    acc[m, n] = sum_k a[m, k] * b[k, n]  =  acc[n, m] with a and b swapped: the same chains

Vectors lie along n. So n is made the long axis when it is very short (a matrix times a vector), and
the axis along which the results lie side by side in memory.
"""

from __future__ import annotations

from dataclasses import replace

from rushlight.backends.llvm.access import OTHER, find_accesses, stride_along
from rushlight.compiler.tile.ir import Axis, DotGrid

# Fewer columns than this do not fill a quarter of a vector on any target that matters.
SHORT = 4


def orient(grid: DotGrid, lanes: int) -> DotGrid:
    """The grid, or the grid with its sides swapped. lanes: of a vector, which starts aligned."""
    if _wants_swap(grid, lanes):
        return replace(grid, m=grid.n, n=grid.m, a=grid.b, b=grid.a)
    return grid


def _wants_swap(grid: DotGrid, lanes: int) -> bool:
    m, n = grid.m.extent, grid.n.extent
    if isinstance(n, int) and n <= SHORT:
        return not isinstance(m, int) or m > n
    if isinstance(m, int) and m <= SHORT:
        return False
    return _scattered(grid, grid.n, lanes) and not _scattered(grid, grid.m, lanes)


def _scattered(grid: DotGrid, axis: Axis, lanes: int) -> bool:
    """Do neighbours along the axis lie apart in some result?"""
    access = find_accesses([s.value for s in grid.stores], [s.at for s in grid.stores])
    return any(stride_along(at, axis.name, access.names, lanes) is OTHER for at in access.writes)
