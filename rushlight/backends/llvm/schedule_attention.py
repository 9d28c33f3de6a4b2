"""How an attention is cut into blocks: data only, it never changes a bit of the result.

In: the sizes of an AttentionGrid where they are numbers, the target. Out: an `AttentionSchedule`,
or `ThinAttention` for few queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.schedule import along_k, lanes_of
from rushlight.compiler.tile.ir import KEY_BLOCK, AttentionGrid
from rushlight.ir.symint_math import ceildiv

# Owners of an instance of attention: packing the others is then a few percent of its work.
OWNER_BLOCK = 128
# Vectors of sums in a register block of attention.
MOST_STORED = 8
# More queries fill the lanes.
THIN_QUERIES = 8
# Sums of all queries of a batch element that one pass may hold: a share of the last cache.
ONE_PASS_BYTES = 8 << 20


@dataclass(frozen=True)
class AttentionSchedule:
    """owners: of an instance, whole panels. vectors, lanes: a panel of owners. inner_rows: the
    register block of the products. is_one_pass: the keys own, all blocks of them in one instance,
    and the sums of the queries are made in the same pass."""

    owners: int
    vectors: int
    lanes: int
    inner_rows: int
    is_one_pass: bool = False

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


@dataclass(frozen=True)
class ThinAttention:
    """For a softmax of few queries: keys lie in lanes, nothing but the queries is packed."""

    lanes: int


def choose_attention_schedule(
    grid: AttentionGrid, side: str, target: Target, threads: int
) -> AttentionSchedule | ThinAttention:
    """The schedule of one side of an AttentionGrid ("l": queries own an instance, "s": keys), from
    its sizes where they are numbers."""
    if _is_thin(grid):
        return ThinAttention(lanes_of(grid.acc_dtype, target))
    return wide_attention_schedule(grid, side, target, threads)


def _is_thin(grid: AttentionGrid) -> bool:
    """Few queries, and widths that are numbers; k lies along its features."""
    widths = [p.k.extent for p in grid.products]
    widths += [1 if x.n is None else x.n.extent for x in grid.sums]
    if grid.softmax is None or not all(isinstance(n, int) and n > 0 for n in widths):
        return False
    rows = grid.l.extent
    if not isinstance(rows, int) or not 1 <= rows <= THIN_QUERIES:
        return False
    return not any(along_k(p.b, p.k, grid.s) for p in grid.products)


def wide_attention_schedule(
    grid: AttentionGrid, side: str, target: Target, threads: int
) -> AttentionSchedule:
    """Owners in lanes."""
    lanes = lanes_of(grid.acc_dtype, target)
    axis, runs = (grid.s, grid.runs_s) if side == "s" else (grid.l, grid.runs_l)
    vectors = 1 if isinstance(axis.extent, int) and axis.extent <= lanes else 2
    if runs is not None:  # a panel lies in one group
        vectors = max(1, min(vectors, runs.group // lanes))
    owners = OWNER_BLOCK if runs is None else min(OWNER_BLOCK, runs.rows)
    sizes = [axis.extent, *(axis.extent for axis in grid.batch)]
    one_pass = _suits_one_pass(grid, threads)
    if all(isinstance(n, int) for n in sizes) and not one_pass:
        instances = prod(sizes[1:])
        while owners > KEY_BLOCK // 2 and instances * ceildiv(sizes[0], owners) < 4 * threads:
            owners //= 2
    found = AttentionSchedule(owners, vectors, lanes, 1, one_pass)
    return replace(found, inner_rows=panel_rows(KEY_BLOCK, found, target))


def for_bins(s: AttentionSchedule) -> AttentionSchedule:
    """A schedule of queries that keeps the order of PairBins: blocks of KEY_BLOCK queries."""
    vectors = s.vectors if KEY_BLOCK % s.columns == 0 else 1
    return replace(s, owners=KEY_BLOCK, vectors=vectors, is_one_pass=False)


def _suits_one_pass(grid: AttentionGrid, threads: int) -> bool:
    """Both kinds of sums, enough batch elements for all threads, and room for what is summed."""
    crossing = [x for x in grid.sums if x.over == "s"]
    widths = [1 if x.n is None else x.n.extent for x in crossing]
    sizes = [grid.l.extent, *widths, *(axis.extent for axis in grid.batch)]
    if grid.softmax is not None or len(crossing) in (0, len(grid.sums)):
        return False
    if 0 in widths or not all(isinstance(n, int) for n in sizes):
        return False
    batch = prod(axis.extent for axis in grid.batch)
    # One pass is 5 products of the 7 of two passes, but idle threads count.
    turns = ceildiv(batch, threads) * threads
    bytes_summed = grid.l.extent * sum(widths) * grid.acc_dtype.itemsize
    return 5 * turns <= 7 * batch and bytes_summed <= ONE_PASS_BYTES


def panel_rows(count: int, s: AttentionSchedule, target: Target) -> int:
    """Rows of a register block for `count` rows, as in _register_block.

    Its sums are chains of 64 or so, stored at once; stores of whole AVX-512 vectors in a row hold
    multiply-adds up (measured on Zen 4: 108 GFLOP/s with blocks of 26 vectors, 116 with 8)."""
    most = min(14, s.lanes, (target.registers - s.vectors - 1) // s.vectors)
    if target.avx512:
        most = min(most, MOST_STORED // s.vectors)
    return min(
        range(most, 0, -1),
        key=lambda rows: max(1, -(-count // rows)) * max(rows * s.vectors + 1.3, 4.0),
    )
