"""Which attention programs become CuTe kernels, and how their operands lie in memory.

In: a tile program, a chip. Out: `Attention`, or the reasons why there is none. Always true: scores
and masks may be anything that scalar expressions say; the three operands lie as TMA fetches them.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.backends.cute.chips import CHIPS, CHIPS_TEXT
from rushlight.backends.cute.claims import Matrix, matrix_of, refused_values
from rushlight.compiler.tile import ir
from rushlight.ir.scalar import E

WIDEST = 256
STEP = 16  # what one wgmma takes of k


@dataclass(frozen=True, eq=False)
class Attention:
    """Rows of `q` and `k` are queries and keys, rows of `v` its features."""

    program: ir.Program
    grid: ir.AttentionGrid
    q: Matrix
    k: Matrix
    v: Matrix

    @property
    def features(self) -> int:
        """Of a query and a key."""
        return _known(self.grid.products[0].k)

    @property
    def results(self) -> int:
        """Features of a value."""
        assert self.grid.sums[0].n is not None
        return _known(self.grid.sums[0].n)

    @property
    def rows(self) -> int:
        """Queries of a group: blocks of the mask are not cut."""
        runs = self.grid.runs_l
        return 128 if runs is None or runs.rows % 128 == 0 else ir.KEY_BLOCK


def _known(axis: ir.Axis) -> int:
    assert isinstance(axis.extent, int)
    return axis.extent


def claim_attention(program: ir.Program, chip: str) -> Attention | list[str]:
    """The attention that a program is, or why CuTe has no kernel for it."""
    if chip not in CHIPS:
        return [f"no CuTe kernel for {chip}: {CHIPS_TEXT}"]
    if len(program.grids) != 1 or not isinstance(program.grids[0], ir.AttentionGrid):
        return ["not attention alone"]
    grid = program.grids[0]
    reasons = _refused_shape(grid)
    if reasons:
        return reasons
    (one,), (item,) = grid.products, grid.sums
    assert item.n is not None and item.other is not None
    q = matrix_of(one.a, grid.batch, grid.l, one.k)
    k = matrix_of(one.b, grid.batch, grid.s, one.k)
    v = matrix_of(item.other, grid.batch, item.n, grid.s)
    found = [x for x in (q, k, v) if isinstance(x, Matrix)]
    reasons = [x for x in (q, k, v) if isinstance(x, str)] + refused_values(_values(grid))
    if len({x.buffer.dtype for x in found}) > 1:
        reasons.append("queries, keys and values differ in dtype")
    if reasons or len(found) < 3:
        return list(dict.fromkeys(reasons))
    return Attention(program, grid, *found)


def _refused_shape(grid: ir.AttentionGrid) -> list[str]:
    if grid.softmax is None or grid.bins:
        return ["a backward pass: sums over pairs without a softmax"]
    if len(grid.products) != 1 or len(grid.sums) != 1 or grid.sums[0].other is None:
        return [f"{len(grid.products)} products and {len(grid.sums)} sums, not one of each"]
    if grid.acc_dtype.name != "float32":
        return [f"sums are {grid.acc_dtype.name}, not float32"]
    item = grid.sums[0]
    assert item.n is not None
    for what, axis in (("features", grid.products[0].k), ("features of values", item.n)):
        if not isinstance(axis.extent, int) or axis.extent % STEP or axis.extent > WIDEST:
            return [f"{what}: {axis.extent!r} is no multiple of {STEP} up to {WIDEST}"]
    return []


def _values(grid: ir.AttentionGrid) -> list[E]:
    assert grid.softmax is not None
    stores = (*grid.sums[0].stores, *grid.softmax.lse_stores, *grid.softmax.top_stores)
    roots = [grid.softmax.score, *(store.value for store in stores)]
    roots += [] if grid.keep is None else [grid.keep]
    return roots + [store.mask for store in stores if store.mask is not None]
