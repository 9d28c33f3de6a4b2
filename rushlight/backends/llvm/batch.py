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
from rushlight.base.dtypes import int64
from rushlight.compiler.tile.ir import Axis, DotGrid
from rushlight.compiler.tile.transform import Mapping_, Substitution
from rushlight.ir.scalar import E, const, index, load, lt
from rushlight.ir.symint import floordiv, mod
from rushlight.ir.symint_walk import variables


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
    change = Substitution(mapping) if wide == width else _Widened(mapping, grid.n)
    b, stores = change.expr(grid.b), tuple(map(change.store, grid.stores))
    if isinstance(change, _Widened):
        stores = tuple(replace(store, mask=change.allowed(store.mask)) for store in stores)
    access = find_accesses([b, *(s.value for s in stores)], [s.at for s in stores])
    for at in (*access.reads, *access.writes):
        if stride_along(at, columns.name, access.names, lanes) is OTHER:
            return None
    return replace(grid, batch=tuple(batch), n=columns, b=b, stores=stores)


class _Widened(Substitution):
    """Columns up to a whole vector: those that are not there read and write nothing."""

    def __init__(self, mapping: Mapping_, n: Axis) -> None:
        super().__init__(mapping)
        self.n = n
        self.there = lt(index(mapping[n.name]), const(n.extent, int64))

    def _rebuild(self, node: E) -> E:
        made = super()._rebuild(node)
        if node.op != "load" or self.n.name not in variables(node.meta[1]):
            return made
        mask, other = made.args or (None, const(0, node.dtype))
        return load(*made.meta, self.allowed(mask), other)

    def allowed(self, mask: E | None) -> E:
        return self.there if mask is None else mask & self.there


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
