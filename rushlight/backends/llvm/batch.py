"""Batch axes that one side of a contraction does not depend on join the other side's axis.

    acc[s, m, n] = sum_k a[s, m, k] * b[k, n]   ->   acc[r, n] = sum_k a[r, k] * b[k, n]
    acc[s, m, n] = sum_k a[m, k] * b[s, k, n]   ->   acc[m, c] = sum_k a[m, k] * b[k, c]

with r = s * M + m and c = s * N + n. So the shared side is packed for all of them at once: a
decoding step of many sequences, or a convolution of many images, is one matrix. The sums are the
same chains; only which instance computes them changes.
"""

from __future__ import annotations

from dataclasses import replace

from rushlight.backends.llvm.access import OTHER, find_accesses, free_names, stride_along
from rushlight.backends.llvm.guarded import Guarded, is_before
from rushlight.compiler.tile.ir import Axis, DotGrid
from rushlight.compiler.tile.transform import Substitution
from rushlight.ir.symint import floordiv, mod


def fold_shared_batch(grid: DotGrid) -> DotGrid:
    """The same contraction with as few batch axes as b allows, folded from the inner one."""
    while grid.batch and grid.batch[-1].name not in free_names([grid.b])[grid.b]:
        folded = _fold_last(grid)
        if folded is None:
            return grid
        grid = folded
    return grid


def fold_into_columns(grid: DotGrid, lanes: int) -> DotGrid:
    """The same contraction; batch axes that a does not depend on join n, from the inner one on.

    lanes: of a vector along n. None lies in two batch elements: each gets whole vectors."""
    while grid.batch and grid.batch[-1].name not in free_names([grid.a])[grid.a]:
        folded = _fold_last_into_columns(grid, lanes)
        if folded is None:
            return grid
        grid = folded
    return grid


def _fold_last_into_columns(grid: DotGrid, lanes: int) -> DotGrid | None:
    """None: vectors would have to be gathered or scattered."""
    *batch, last = grid.batch
    width = grid.n.extent
    if not isinstance(width, int) or width == 0 or (width % lanes and 2 * width < lanes):
        return None
    wide = -(-width // lanes) * lanes
    columns = Axis(f"{last.name}.{grid.n.name}", last.extent * wide)
    mapping = {last.name: floordiv(columns.var, wide), grid.n.name: mod(columns.var, wide)}
    # Columns up to a whole vector: those that are not there read and write nothing.
    there = None if wide == width else is_before(mapping[grid.n.name], width)
    change = Guarded(mapping, {grid.n.name}, there)
    b, stores = change.expr(grid.b), tuple(map(change.store, grid.stores))
    stores = tuple(replace(store, mask=change.allowed(store.mask)) for store in stores)
    access = find_accesses([b, *(s.value for s in stores)], [s.at for s in stores])
    for at in (*access.reads, *access.writes):
        if stride_along(at, columns.name, access.names, lanes) is OTHER:
            return None
    return replace(grid, batch=tuple(batch), n=columns, b=b, stores=stores)


def _fold_last(grid: DotGrid) -> DotGrid | None:
    """None: a would have to be gathered, which costs more than packing b again."""
    *batch, last = grid.batch
    if grid.m.extent == 0:  # nothing to compute, and no remainder by 0
        return None
    rows = Axis(f"{last.name}.{grid.m.name}", last.extent * grid.m.extent)
    mapping = {
        last.name: floordiv(rows.var, grid.m.extent),
        grid.m.name: mod(rows.var, grid.m.extent),
    }
    change = Substitution(mapping)
    a = change.expr(grid.a)
    access = find_accesses([a], ())
    along_rows = [stride_along(at, rows.name, access.names) for at in access.reads]
    along_k = [stride_along(at, grid.k.name, access.names) for at in access.reads]
    if OTHER in along_rows and OTHER in along_k:
        return None
    stores = tuple(map(change.store, grid.stores))
    return replace(grid, batch=tuple(batch), m=rows, a=a, stores=stores)
