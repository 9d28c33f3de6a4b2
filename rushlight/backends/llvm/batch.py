"""Batch axes of a contraction that b does not depend on become rows.

    acc[s, m, n] = sum_k a[s, m, k] * b[k, n]   ->   acc[r, n] = sum_k a[r, k] * b[k, n]

with r = s * M + m. So b is packed for all of them at once, and a decoding step of many sequences is
one matrix. The sums are the same chains; only which instance computes them changes.
"""

from __future__ import annotations

from dataclasses import replace

from rushlight.backends.llvm.access import OTHER, find_accesses, free_names, stride_along
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
