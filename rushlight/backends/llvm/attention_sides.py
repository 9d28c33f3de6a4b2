"""An AttentionGrid seen from one side: who owns an instance, what is packed, where it lies.

In: a grid, whose queries or keys own the instances, the schedule. Out: data only. An instance owns
a block of owners (queries for sums over keys, keys for sums over queries) in panels whose owners
lie in the lanes of vectors; it goes over tiles of KEY_BLOCK others, the *inner* ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.backends.llvm.access import free_names, step_along
from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.pack import Operand
from rushlight.backends.llvm.schedule import along_k
from rushlight.backends.llvm.schedule_attention import AttentionSchedule, panel_rows
from rushlight.compiler.tile.ir import (
    KEY_BLOCK,
    AttentionGrid,
    Axis,
    PairBins,
    PairSum,
    Product,
    Runs,
)
from rushlight.compiler.tile.transform import Substitution
from rushlight.ir.scalar import E, cast, topological
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import ceildiv, maximum

ALIGN = 64
Index = int | Expr


@dataclass(frozen=True)
class Side:
    """own, inner: (axis, operand of each product); sums: those whose results the owners get;
    cross: those of the inner rows that are made in the same pass; bins: those for all owners."""

    name: str
    owner: Axis
    inner: Axis
    products: tuple[Product, ...]
    own: tuple[E, ...]
    inn: tuple[E, ...]
    runs: Runs | None
    sums: tuple[PairSum, ...]
    cross: tuple[PairSum, ...] = ()
    bins: tuple[PairBins, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Are all blocks of owners one instance, because they add to the same sums?"""
        return bool(self.cross or self.bins)


def sides_of(grid: AttentionGrid) -> list[str]:
    """The sides that have results."""
    sides = []
    if grid.softmax is not None or any(x.over == "s" for x in grid.sums):
        sides.append("l")
    if any(x.over == "l" for x in grid.sums):
        sides.append("s")
    if grid.bins:
        sides.append("ls")
    return sides


def side_of(grid: AttentionGrid, name: str, with_cross: bool = False) -> Side:
    """name: "l", the queries own; "s", the keys do; "ls", the queries do, all of them."""
    a = tuple(cast(p.a, grid.acc_dtype) for p in grid.products)
    b = tuple(cast(p.b, grid.acc_dtype) for p in grid.products)
    over_s = tuple(x for x in grid.sums if x.over == "s")
    over_l = tuple(x for x in grid.sums if x.over == "l")
    if name == "l":
        return Side(name, grid.l, grid.s, grid.products, a, b, grid.runs_l, over_s)
    if name == "ls":
        return Side("l", grid.l, grid.s, grid.products, a, b, grid.runs_l, (), (), grid.bins)
    cross = over_s if with_cross else ()
    return Side(name, grid.s, grid.l, grid.products, b, a, grid.runs_s, over_l, cross)


def accs_of(roots: list[E]) -> list[int]:
    """Numbers of the accs that expressions use, ascending."""
    return sorted({node.meta for node in topological(roots) if node.op == "acc"})


@dataclass(frozen=True)
class Matrix:
    """A tile of inner rows x features, packed once and read by products and by sums.

    is_rows: [row][step], features side by side; else [feature][step], rows side by side.
    is_in_place: read where it lies, as rows: memory is what packing would make of it.
    """

    value: E
    features: Axis
    is_rows: bool
    step: int
    is_in_place: bool = False

    @property
    def of_rows(self) -> tuple[int, int]:
        """(row_step, k_step) of a micro kernel with inner rows as its rows."""
        return (self.step, 1) if self.is_rows else (1, self.step)

    @property
    def of_features(self) -> tuple[int, int]:
        """(row_step, k_step) of a micro kernel with features as its rows."""
        return (1, self.step) if self.is_rows else (self.step, 1)

    def operand(self, inner: Axis, s: AttentionSchedule, dtype: object) -> Operand:
        width = up(KEY_BLOCK, s.inner_rows) if self.is_rows else self.step
        on_features = along_k(self.value, inner, self.features)
        step = self.step if self.is_rows else None
        return Operand(
            self.value, inner, self.features, width, s.lanes, self.is_rows or on_features,
            dtype, step,  # type: ignore[arg-type]
        )  # fmt: skip

    def size(self, s: AttentionSchedule) -> Index:
        """Elements, with room for whole register blocks."""
        extent = self.features.extent
        if self.is_rows:
            return (up(KEY_BLOCK, s.inner_rows) + 1) * self.step
        return (maximum(extent, 1) + 16) * self.step


def up(n: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-n // unit) * unit


def matrix_of(
    value: E, inner: Axis, features: Axis, s: AttentionSchedule, target: Target
) -> Matrix:
    """Features side by side when their number is known, unless memory has the rows so."""
    extent = features.extent
    if isinstance(extent, int) and not along_k(value, features, inner):
        # Whole register blocks of features, too.
        whole = extent > 0 and extent % panel_rows(extent, s, target) == 0
        if whole and _is_dense(value, inner, features, s):
            return Matrix(value, features, True, extent, True)
        return Matrix(value, features, True, up(extent, s.lanes) + s.lanes)
    return Matrix(value, features, False, up(KEY_BLOCK, s.lanes))


def _is_dense(value: E, inner: Axis, features: Axis, s: AttentionSchedule) -> bool:
    """Row after row without gaps, whole register blocks of them: nothing else would be read."""
    if value.op != "load" or value.args or not isinstance(inner.extent, int):
        return False
    offset, names = value.meta[1], free_names([value])
    steps = [step_along(offset, axis.name, names) for axis in (inner, features)]
    return steps == [features.extent, 1] and inner.extent % s.inner_rows == 0


@dataclass(frozen=True)
class Inner:
    """matrices; and which of them product i, and sum j, read."""

    matrices: tuple[Matrix, ...]
    of_product: dict[int, int]
    of_sum: dict[int, int]


def inner_of(
    side: Side, accs: list[int], s: AttentionSchedule, dtype: object, target: Target
) -> Inner:
    """What is packed for every tile; equal operands of a product and a sum are packed once."""
    matrices: list[Matrix] = []
    of_product, of_sum = {}, {}
    for number in accs:
        of_product[number] = len(matrices)
        features = side.products[number].k
        matrices.append(matrix_of(side.inn[number], side.inner, features, s, target))
    for number, item in enumerate(side.sums):
        if item.other is None or item.n is None:
            continue
        value = cast(item.other, dtype)  # type: ignore[arg-type]
        found = (i for i, m in enumerate(matrices) if _same(m, value, item.n))
        of_sum[number] = next(found, len(matrices))
        if of_sum[number] == len(matrices):
            matrices.append(matrix_of(value, side.inner, item.n, s, target))
    return Inner(tuple(matrices), of_product, of_sum)


def _same(matrix: Matrix, value: E, features: Axis) -> bool:
    if matrix.features.extent != features.extent:
        return False
    return Substitution({matrix.features.name: features.var}).expr(matrix.value) is value


@dataclass
class Layout:
    """Byte offsets in the scratch of an instance: `place(elements)` in the order of the calls."""

    itemsize: int
    total: Index = 0

    def place(self, elements: Index, itemsize: int | None = None) -> Index:
        here = self.total
        size = elements * (itemsize or self.itemsize)
        self.total = here + ceildiv(size, ALIGN) * ALIGN
        return here
