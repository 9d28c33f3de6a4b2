"""How a contraction is cut into blocks: data only, it never changes a bit of the result.

In: the sizes (numbers, or expressions when they are symbolic), the layouts of a and b, the target.
Out: a `DotSchedule`. Register block: rows x (vectors * lanes) sums stay in registers. Cache
blocks: one instance computes mc x nc outputs and packs kc steps of k at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from rushlight.backends.llvm.access import (
    OTHER,
    PAIR,
    QUAD,
    Accesses,
    find_accesses,
    period_along,
    stride_along,
)
from rushlight.backends.llvm.body import grain_of
from rushlight.backends.llvm.caps import Target
from rushlight.base.dtypes import DType
from rushlight.compiler.tile.ir import Axis, DotGrid
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import ceildiv, maximum
from rushlight.ir.symint_walk import evaluate, variables

# Bytes of the packed block of a (in L2) and of the packed panel of b.
A_BLOCK_BYTES = 600 << 10
B_PANEL_BYTES = 80 << 10
# Columns of an instance; half as many more rather than a second block.
N_BLOCK = 512
# Of a contraction whose operand slides: the packed block of a (read from L3 if it must be), sums
# between steps of k, and steps of k of a panel.
SLIDING_A_BYTES = 1536 << 10
SLIDING_C_BYTES = 512 << 10
SLIDING_STEPS = 512
# An instance of fewer multiply-adds is not worth a thread of its own.
MIN_INSTANCE_WORK = 1 << 20
LONG_INSTANCE_WORK = 32 << 20
# Packing an element takes as long as so many multiply-adds, and what computes it; what a late
# thread costs.
PACK_COST = 16
LATE_START = 1.15
# Of an axis of unknown length: the largest block (`_at_run` finds the size that fits).
SYMBOLIC_BLOCK = 512
UNKNOWN_SIZE = 1024
# An operand of so few operations is little more than a load: cheap to evaluate and to emit twice.
PLAIN_COST = 3
# An operand that is read in place may be computed from several (packed numbers and their scales):
# its code is written once for each of the unrolled steps of k.
THIN_COST = 40
# Steps of k that may share what they load. The blocks of packed formats have 32.
MAX_PERIOD = 64


@dataclass(frozen=True)
class DotSchedule:
    """rows, vectors, lanes: the register block. mc, nc, kc: the cache blocks, in elements.

    along_k_a, along_k_b: read the operand along k and turn blocks in registers while packing.
    words: the grid is one of words (dot_words.py). tiles: one of words, summed in tile registers
    (dot_tiles.py); rows and columns are then of whole tiles, kc of whole blocks.
    """

    rows: int
    vectors: int
    lanes: int
    mc: int
    nc: int
    kc: int
    along_k_a: bool
    along_k_b: bool
    words: bool = False
    tiles: bool = False
    # Numbers of equal blocks where sizes are only known at a run; 0: as few as mc and nc allow.
    m_blocks: int | Expr = 0
    n_blocks: int | Expr = 0

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    def blocks(self, m: int | Expr, n: int | Expr) -> tuple[int | Expr, int | Expr]:
        """How many of rows and of columns; each has whole register blocks, one more or less."""
        m_blocks = ceildiv(m, self.mc) if self.m_blocks == 0 else self.m_blocks
        return m_blocks, ceildiv(n, self.nc) if self.n_blocks == 0 else self.n_blocks

    @property
    def row_step(self) -> int:
        """Elements from one packed row of a to the next, if a lies along k; few different values.

        A vector more than a round number: rows 4096 bytes apart would compete for cache lines.
        """
        return next((r for r in (64, 128, 256, 512, 768) if r >= self.kc), self.kc) + self.lanes


@dataclass(frozen=True)
class ThinSchedule:
    """For few rows of a: b is read in place, once. nc: columns of an instance.

    unroll: steps of k per sweep over the columns, when b is not along k; whole periods of the
    divisions of k in b's indices, so that what a block of k shares (a scale) is loaded once.
    """

    lanes: int
    nc: int
    unroll: int
    along_k_a: bool
    along_k_b: bool


def choose_schedule(grid: DotGrid, target: Target, threads: int) -> DotSchedule | ThinSchedule:
    """The schedule of a DotGrid, from its sizes where they are numbers."""
    return choose_thin_schedule(grid, target, threads) or choose_dot_schedule(grid, target, threads)


def dot_grain(work: int | Expr) -> int:
    """Instances per unit of work of a thread; sizes that are not known count as long ones."""
    if isinstance(work, Expr):
        work = evaluate(work, dict.fromkeys(variables(work), UNKNOWN_SIZE))
    return grain_of(work)


def choose_thin_schedule(grid: DotGrid, target: Target, threads: int) -> ThinSchedule | None:
    """Few rows and a plain b (it is emitted once per unrolled step)."""
    rows = grid.m.extent
    on_k = along_k(grid.b, grid.n, grid.k)
    # Along k the code is long: every row is emitted once per lane.
    most = target.registers // 4 if not on_k else target.registers // 5
    if not isinstance(rows, int) or not 1 <= rows <= most:
        return None
    access = find_accesses([grid.b], ())
    if on_k and access.cost() > PLAIN_COST:
        return None
    lanes = lanes_of(grid.acc_dtype, target)
    if not on_k and (access.cost() > THIN_COST or OTHER in _strides(access, grid.n, lanes)):
        return None
    n, nc = grid.n.extent, 1024
    if isinstance(n, int):
        nc = even_blocks(n, min(nc, max(256, -(-n // (2 * threads)))), lanes)
    unroll = max(3, 8 // rows)
    period = period_along([grid.b], grid.k.name)
    if period <= MAX_PERIOD:
        unroll = ceildiv(unroll, period) * period
    return ThinSchedule(lanes, nc, unroll, along_k(grid.a, grid.m, grid.k), on_k)


def choose_dot_schedule(
    grid: DotGrid, target: Target, threads: int, block: tuple[int, int] | None = None
) -> DotSchedule:
    """The schedule of a DotGrid, from its sizes where they are numbers. block: (rows, vectors)."""
    lanes = lanes_of(grid.acc_dtype, target)
    rows, vectors = block or register_block(grid.m.extent, grid.n.extent, lanes, target)
    columns = vectors * lanes
    size = grid.acc_dtype.itemsize
    # Whole vectors, so that each step starts at a multiple of `lanes`.
    kc = max(64, min(512, B_PANEL_BYTES // (columns * size))) // lanes * lanes
    if isinstance(grid.k.extent, int) and grid.k.extent <= kc * 3 // 2:
        kc = max(1, grid.k.extent)
    mc = even_blocks(grid.m.extent, max(1, A_BLOCK_BYTES // (kc * size * rows)) * rows, rows)
    most = N_BLOCK
    if isinstance(grid.n.extent, int) and grid.n.extent <= N_BLOCK * 3 // 2:
        most = N_BLOCK * 3 // 2
    nc = even_blocks(grid.n.extent, max(1, most // columns) * columns, columns)
    mc, nc = _share(grid, mc, nc, rows, columns, threads)
    on_k = [along_k(e, x, grid.k, lanes) for e, x in ((grid.a, grid.m), (grid.b, grid.n))]
    blocks = _at_run(grid, mc, nc, threads)
    return DotSchedule(rows, vectors, lanes, mc, nc, kc, *on_k, False, False, *blocks)


def choose_sliding_schedule(
    grid: DotGrid, inner: DotGrid, points: int, target: Target, threads: int
) -> DotSchedule:
    """Of a contraction whose b slides (sliding.py), in the axes of `inner`: `points` products."""
    lanes, size, m = lanes_of(grid.acc_dtype, target), grid.acc_dtype.itemsize, inner.m.extent
    rows, vectors = register_block(m, inner.n.extent, lanes, target)
    if target.avx512:  # short chains, as in `panel_rows`: a vector wide, and as many rows
        rows = ceildiv(m, max(1, ceildiv(m, lanes))) if isinstance(m, int) else lanes
        rows, vectors = max(1, rows), 1
    columns, k = vectors * lanes, inner.k.extent
    whole_k = isinstance(k, int) and k <= SLIDING_STEPS * 3 // 2
    kc = max(1, k) if whole_k else SLIDING_STEPS
    mc = even_blocks(m, max(1, SLIDING_A_BYTES // (points * kc * size * rows)) * rows, rows)
    # Sums that wait for further steps lie in cache; without any, a is packed for all columns.
    most = 1 << 20 if whole_k else SLIDING_C_BYTES // (points * mc * size)
    nc = even_blocks(inner.n.extent, max(1, most // columns) * columns, columns)
    work = replace(inner, k=Axis(inner.k.name, k * points))
    mc, nc = _share(work, mc, nc, rows, columns, threads)
    on_k = [along_k(e, x, grid.k, lanes) for e, x in ((grid.a, grid.m), (grid.b, grid.n))]
    return DotSchedule(rows, vectors, lanes, mc, nc, kc, *on_k)


def lanes_of(dtype: DType, target: Target) -> int:
    """Elements of a vector; small ints use as many lanes as 32-bit ones, to keep the code small."""
    return target.vector_bytes // max(4, dtype.itemsize)


def register_block(
    m: int | Expr, n: int | Expr, lanes: int, target: Target, more_sums: int = 0
) -> tuple[int, int]:
    """(rows, vectors) with the least estimated time per k over the whole output. more_sums: rows
    of them that are no output (dot_words.py), with one vector that they are multiplied by."""
    most_rows = min(14, lanes)
    m = m if isinstance(m, int) else 64 * most_rows
    n = n if isinstance(n, int) else 64 * lanes
    best, best_cost = (1, 1), float("inf")
    for rows in range(most_rows, 0, -1):
        for vectors in range(1, 9):
            # The sums, the vectors of b, and one of a in all lanes.
            if (rows + more_sums + 1) * vectors + 1 + more_sums > target.registers:
                break
            turns = max(1, -(-m // rows)) * max(1, -(-n // (vectors * lanes)))
            # Below 4 chains the latency of the multiply-add shows; 1.3 is the cost of a turn.
            cost = turns * max((rows + more_sums) * vectors + 1.3, 4.0)
            # Only for a real gain: contractions of equal blocks share their micro kernel.
            if cost < best_cost * 0.98:
                best, best_cost = (rows, vectors), cost
    return best


def even_blocks(extent: int | Expr, most: int, unit: int) -> int:
    """A block size <= `most`, a multiple of `unit`, so that all blocks are about as large."""
    if not isinstance(extent, int):
        return max(1, min(most, SYMBOLIC_BLOCK) // unit) * unit
    blocks = max(1, ceildiv(extent, most))
    return max(1, ceildiv(ceildiv(extent, blocks), unit)) * unit


def _at_run(grid: DotGrid, mc: int, nc: int, threads: int) -> tuple[int | Expr, int | Expr]:
    """Blocks of at most mc x nc where sizes are only known at a run: about as many as a multiple of
    the threads. 0: the length is known."""
    m, n = grid.m.extent, grid.n.extent
    m_blocks, n_blocks = ceildiv(m, mc), ceildiv(n, nc)
    here = maximum(n_blocks, 1)
    m_blocks = ceildiv(ceildiv(m_blocks * here, threads) * threads, here)
    return 0 if isinstance(m, int) else m_blocks, 0 if isinstance(n, int) else n_blocks


def _share(
    grid: DotGrid, mc: int, nc: int, rows: int, columns: int, threads: int
) -> tuple[int, int]:
    """Blocks of at most mc x nc with the least estimated time of the slowest thread."""
    extents = [grid.m.extent, grid.n.extent, grid.k.extent, *(x.extent for x in grid.batch)]
    if not all(isinstance(x, int) and x > 0 for x in extents):
        return mc, nc
    m, n, k, *batch = extents
    copies = prod(batch)
    pack_a, pack_b = (PACK_COST + find_accesses([e], ()).cost() for e in (grid.a, grid.b))

    def time(blocks: tuple[int, int]) -> float:
        mc, nc = blocks
        count = copies * ceildiv(m, mc) * ceildiv(n, nc)
        # Each instance packs for itself.
        work = (mc * nc + pack_a * mc + pack_b * nc) * k
        # A thread that starts late matters, unless the instances are long.
        is_short = threads > 1 and count < 2 * threads and work < LONG_INSTANCE_WORK
        return ceildiv(count, threads) * work * (LATE_START if is_short else 1.0)

    best = mc, nc
    for n_parts in _more_parts(n, nc, columns, threads):
        for m_parts in _more_parts(m, mc, rows, threads):
            found = m_parts, n_parts
            if m_parts * n_parts * k >= MIN_INSTANCE_WORK and time(found) < time(best) * 0.99:
                best = found
    return best


def _more_parts(extent: int, most: int, unit: int, threads: int) -> list[int]:
    """Sizes of equal blocks <= `most`: as few blocks as there must be, some more, and doubles."""
    blocks = ceildiv(extent, most)
    counts = [*range(blocks, blocks + threads + 1), *(blocks << i for i in range(1, 8))]
    sizes = {ceildiv(ceildiv(extent, count), unit) * unit for count in counts}
    return sorted((size for size in sizes if size <= most), reverse=True)


def along_k(e: E, lane: Axis, k: Axis, aligned: int = 0) -> bool:
    """True when the loads of e lie side by side along k and not along the lane axis. aligned: the
    number of lanes, where vectors start at multiples of it."""
    access = find_accesses([e], ())
    along, across = _strides(access, k, aligned), _strides(access, lane, aligned)
    steps = any(stride in along for stride in (1, PAIR, QUAD))
    return steps and OTHER not in along and OTHER in across


def _strides(access: Accesses, axis: Axis, aligned: int = 0) -> list[int | None]:
    return [stride_along(at, axis.name, access.names, aligned) for at in access.reads]
