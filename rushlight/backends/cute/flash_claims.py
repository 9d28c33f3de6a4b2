"""Which attention programs become CuTe kernels, and how their operands lie in memory.

In: a tile program, a chip. Out: `Attention`, or the reasons why there is none. Always true: scores,
weights and masks may be anything that scalar expressions say; operands lie as TMA fetches them; a
kernel's tiles fit into the chip's memories.

A forward pass is one kernel: blocks of queries own their results. A backward pass is two, one after
the other: blocks of queries own the gradient of the queries, blocks of keys those of the keys and
of the values. Nothing is added by more than one group, so sums have an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.backends.cute.chips import CHIPS, Chip, room
from rushlight.backends.cute.claims import Matrix, Operand, matrix_of, only_grid, refused_values
from rushlight.compiler.tile import ir
from rushlight.ir.scalar import E

WIDEST = 256
STEP = 16  # what one instruction of a tensor core takes of k
STAGES = 2
KEYS = ir.KEY_BLOCK  # of a tile of the others


@dataclass(frozen=True, eq=False)
class Side:
    """What one kernel computes.

    name     "l": queries own results and go over keys; "s": the other way round
    owners   of each product: rows are the owners
    inners   of each product: rows are the others
    others   of each sum: rows are its features, along them lie the others
    weights  expressions that are weights of sums (with a softmax: none, the weight is the
             probability); `weight_of` says which one a sum has
    """

    name: str
    grid: ir.AttentionGrid
    owners: tuple[Matrix, ...]
    inners: tuple[Matrix, ...]
    sums: tuple[ir.PairSum, ...]
    others: tuple[Matrix, ...]

    @property
    def owner(self) -> ir.Axis:
        return self.grid.l if self.name == "l" else self.grid.s

    @property
    def inner(self) -> ir.Axis:
        return self.grid.s if self.name == "l" else self.grid.l

    @property
    def runs(self) -> ir.Runs | None:
        return self.grid.runs_l if self.name == "l" else self.grid.runs_s

    @property
    def rows(self) -> int:
        """Owners of a group: blocks of the mask are not cut."""
        return 128 if self.runs is None or self.runs.rows % 128 == 0 else ir.KEY_BLOCK

    @property
    def weights(self) -> tuple[E, ...]:
        return tuple(dict.fromkeys(x.weight for x in self.sums))

    def weight_of(self, number: int) -> int:
        return self.weights.index(self.sums[number].weight)

    @property
    def features(self) -> tuple[int, ...]:
        """Of each product."""
        return tuple(known(x.k) for x in self.grid.products)

    @property
    def results(self) -> tuple[int, ...]:
        """Features of each sum."""
        return tuple(known(x.n) for x in self.sums)

    @property
    def operands(self) -> list[Operand]:
        """Owners, inners, others: what TMA fetches."""
        own, other, found = self.owner.extent, self.inner.extent, []
        for one, k in zip(self.owners, self.features, strict=True):
            found.append(Operand(one, own, k, (self.rows, k), 1, is_left=True))
        for one, k in zip(self.inners, self.features, strict=True):
            found.append(Operand(one, other, k, (KEYS, k), STAGES, is_turned=False))
        for one, n in zip(self.others, self.results, strict=True):
            found.append(Operand(one, n, other, (n, KEYS), STAGES))
        return found

    @property
    def shared_bytes(self) -> int:
        """Owners once, what belongs to a tile of the others STAGES times; 16 bits each."""
        return 2 * sum(x.stages * x.tile[0] * x.tile[1] for x in self.operands)

    @property
    def columns(self) -> int:
        """Of tensor memory: products, weights (two of 16 bits in one), sums."""
        return KEYS * len(self.features) + KEYS // 2 * len(self.weights) + sum(self.results)


@dataclass(frozen=True, eq=False)
class Attention:
    """A kernel for each side that owns results."""

    program: ir.Program
    grid: ir.AttentionGrid
    sides: tuple[Side, ...]


def known(axis: ir.Axis | None) -> int:
    assert axis is not None and isinstance(axis.extent, int)
    return axis.extent


def claim_attention(program: ir.Program, chip: str) -> Attention | list[str]:
    """The attention that a program is, or why CuTe has no kernel for it."""
    grid = only_grid(program, chip, ir.AttentionGrid, "attention")
    if isinstance(grid, list):
        return grid
    reasons = _refused_shape(grid)
    if reasons:
        return reasons
    reasons = refused_values(_values(grid))
    sides = []
    for name in ("l", "s"):
        own = [x for x in grid.sums if x.over != name]
        if own:
            found = _side(grid, name, own)
            if isinstance(found, Side):
                reasons += _refused_room(found, CHIPS[chip])
                sides.append(found)
            else:
                reasons += found
    return list(dict.fromkeys(reasons)) or Attention(program, grid, tuple(sides))


def _side(grid: ir.AttentionGrid, name: str, sums: Sequence[ir.PairSum]) -> Side | list[str]:
    owner, inner = (grid.l, grid.s) if name == "l" else (grid.s, grid.l)
    pairs = [(x.a, x.b) if name == "l" else (x.b, x.a) for x in grid.products]
    owners, inners, others = [], [], []
    for (a, b), one in zip(pairs, grid.products, strict=True):
        owners.append(matrix_of(a, grid.batch, owner, one.k))
        inners.append(matrix_of(b, grid.batch, inner, one.k))
    for item in sums:
        assert item.other is not None and item.n is not None
        others.append(matrix_of(item.other, grid.batch, item.n, inner))
    every = (*owners, *inners, *others)
    found = [x for x in every if isinstance(x, Matrix)]
    if len(found) < len(every):
        return [x for x in every if isinstance(x, str)]
    if len({x.buffer.dtype for x in found}) > 1:
        return ["operands differ in dtype"]
    count = len(owners)
    return Side(
        name, grid, tuple(found[:count]), tuple(found[count : 2 * count]), tuple(sums),
        tuple(found[2 * count :]),
    )  # fmt: skip


def _refused_shape(grid: ir.AttentionGrid) -> list[str]:
    if grid.bins:
        return ["sums into bins: gradients of what a score looks up"]
    if not grid.products or not grid.sums or any(x.other is None for x in grid.sums):
        return ["not every sum has a second factor, or there is no product"]
    axes = [("features", x.k) for x in grid.products]
    axes += [("features of results", x.n) for x in grid.sums if x.n is not None]
    for what, axis in axes:
        if not isinstance(axis.extent, int) or axis.extent % STEP or axis.extent > WIDEST:
            return [f"{what}: {axis.extent!r} is no multiple of {STEP} up to {WIDEST}"]
    return []


def _refused_room(side: Side, chip: Chip) -> list[str]:
    if chip.kernels == "umma" and side.rows != 128:
        return ["blocks of the mask are of 64 rows, tensor memory has sums of 128"]
    return room(chip, side.shared_bytes, side.columns)


def _values(grid: ir.AttentionGrid) -> list[E]:
    stores = [store for item in grid.sums for store in item.stores]
    roots = [item.weight for item in grid.sums]
    if grid.softmax is not None:
        stores += [*grid.softmax.lse_stores, *grid.softmax.top_stores]
        roots.append(grid.softmax.score)
    roots += [store.value for store in stores] + [x.mask for x in stores if x.mask is not None]
    return roots + ([] if grid.keep is None else [grid.keep])
