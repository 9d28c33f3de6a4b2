"""Which tile programs become CuTe kernels, and how their operands lie in memory.

In: a tile program, a chip. Out: `Product`, a product of two matrices as TMA can fetch them, or the
reasons why there is none. Always true: nothing of cutlass is needed to say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rushlight.backends.cute.chips import CHIPS, CHIPS_TEXT, MULTIPLE, Chip, product_bytes, room
from rushlight.compiler.tile import ir
from rushlight.ir.scalar import E, topological
from rushlight.ir.symint import Expr, VarAtom, floordiv
from rushlight.ir.symint_walk import substitute, variables

OPERANDS = ("float16", "bfloat16")
VALUES = frozenset(("float32", "float16", "bfloat16", "int32", "int64", "uint32", "bool"))
Index = int | Expr
G = TypeVar("G", ir.DotGrid, ir.AttentionGrid)


@dataclass(frozen=True, eq=False)
class Matrix:
    """element (batch, row, k) = buffer[offset + batch // share * lead + row * across + k * along].

    share  how many neighbours of the batch have the same matrix (heads of queries per head of keys)
    """

    buffer: ir.Buffer
    offset: Index
    lead: Index
    across: Index
    along: Index
    share: int = 1

    @property
    def is_k_major(self) -> bool:
        return self.along == 1


@dataclass(frozen=True, eq=False)
class Operand:
    """A matrix of (rows, columns), the tiles that it is cut into, and how many of them lie in
    shared memory at a time.

    is_left    the left factor: its rows are those of the result
    is_turned  its columns, not its rows, are what a group goes over
    """

    matrix: Matrix
    rows: Index
    columns: Index
    tile: tuple[int, int]
    stages: int
    is_left: bool = False
    is_turned: bool = True


@dataclass(frozen=True, eq=False)
class Product:
    """`b`'s rows are the columns of the result. `batch`: how many products there are."""

    program: ir.Program
    grid: ir.DotGrid
    a: Matrix
    b: Matrix

    def operands(self, chip: Chip) -> list[Operand]:
        """What TMA fetches: tiles of both factors, along k."""
        m, n, k = (axis.extent for axis in (self.grid.m, self.grid.n, self.grid.k))
        return [
            Operand(self.a, m, k, (chip.bm, chip.bk), chip.stages, is_left=True),
            Operand(self.b, n, k, (chip.bn, chip.bk), chip.stages),
        ]


def strides_of(at: Index, axes: tuple[ir.Axis, ...]) -> tuple[Index, list[Index]] | None:
    """(offset, stride of each axis), when `at` is their weighted sum."""
    own, known = {axis.name for axis in axes}, variables(at)
    offset = substitute(at, dict.fromkeys(own, 0))
    strides: list[Index] = []
    whole = offset
    for axis in axes:
        others = {name: int(name == axis.name) for name in own}
        strides.append(substitute(at, others) - offset)
        if axis.name in known:  # its bounds, part of what it is, may be others than the axis's
            whole = whole + known[axis.name] * strides[-1]
    left = {name for stride in strides for name in variables(stride)}
    return None if whole != at or own & left else (offset, strides)


def is_multiple(value: Index, of: int) -> bool:
    """Is it one whatever the sizes are?"""
    if isinstance(value, int):
        return value % of == 0
    return value.const % of == 0 and all(coef % of == 0 for _, coef in value.terms)


def matrix_of(value: E, batch: tuple[ir.Axis, ...], row: ir.Axis, k: ir.Axis) -> Matrix | str:
    """An operand as TMA fetches it, or why it cannot."""
    while value.op == "cast" and value.args[0].dtype.name in OPERANDS:
        value = value.args[0]
    if value.op != "load" or value.args:
        return f"{value.op} comes before the product, and tiles are fetched as they lie"
    buffer, at = value.meta
    if buffer.dtype.name not in OPERANDS:
        return f"operand_dtype: {buffer.dtype.name}, tensor cores take {', '.join(OPERANDS)} here"
    share = _share(at, batch)
    if share > 1:
        shared, whole = _shared(at, batch, share)
        if substitute(whole, {shared[-1].name: floordiv(batch[-1].var, share)}) != at:
            return "an operand's index is no sum of strides"
        batch, at = shared, whole
    found = strides_of(at, (*batch, row, k))
    if found is None:
        return "an operand's index is no sum of strides"
    offset, (*lead, across, along) = found
    merged = _merged(batch, lead)
    if merged is None:
        return f"{len(batch)} axes of the batch do not lie one after another"
    if 1 not in (across, along):
        return f"no stride of an operand is 1: {across!r} and {along!r}"
    for what in (offset, merged, along if across == 1 else across):
        if not is_multiple(what, MULTIPLE):
            return f"TMA wants strides and offsets that are multiples of {MULTIPLE}, not {what!r}"
    return Matrix(buffer, offset, merged, across, along, share)


def _share(at: Index, batch: tuple[ir.Axis, ...]) -> int:
    """By what the last axis of the batch is divided in an index, where it is no more than that."""
    if not batch or isinstance(at, int):
        return 1
    last = batch[-1]
    for monomial, _ in at.terms:
        for atom in monomial:
            if not isinstance(atom, VarAtom) and atom.op == "floordiv" and atom.a == last.var:
                divides = isinstance(atom.b, int) and isinstance(last.extent, int)
                return atom.b if divides and last.extent % atom.b == 0 else 1
    return 1


def _shared(at: Index, batch: tuple[ir.Axis, ...], share: int) -> tuple[tuple[ir.Axis, ...], Index]:
    """The batch without what shares, and the index over it."""
    last = batch[-1]
    assert isinstance(last.extent, int)
    group = ir.Axis(f"{last.name}_shared", last.extent // share)
    return (*batch[:-1], group), substitute(at, {last.name: group.var * share})


def _merged(batch: tuple[ir.Axis, ...], lead: list[Index]) -> Index | None:
    """The stride of all axes of the batch as one."""
    real = [(one, axis) for one, axis in zip(lead, batch, strict=True) if axis.extent != 1]
    for (outer, _), (inner, axis) in zip(real, real[1:], strict=False):
        if outer != inner * axis.extent:
            return None
    return real[-1][0] if real else 0


def only_grid(program: ir.Program, chip: str, kind: type[G], what: str) -> G | list[str]:
    """The only grid of a program, for a chip there are kernels for, summed in float32; or why
    not: what all claims ask first."""
    if chip not in CHIPS:
        return [f"no CuTe kernel for {chip}: {CHIPS_TEXT}"]
    if len(program.grids) != 1 or not isinstance(program.grids[0], kind):
        return [f"not {what} alone"]
    grid = program.grids[0]
    if grid.acc_dtype.name != "float32":
        return [f"sums are {grid.acc_dtype.name}, not float32"]
    return grid


def claim(program: ir.Program, chip: str) -> Product | list[str]:
    """The product that a program is, or why CuTe has no kernel for it."""
    grid = only_grid(program, chip, ir.DotGrid, "a product of matrices")
    if isinstance(grid, list):
        return grid
    a = matrix_of(grid.a, grid.batch, grid.m, grid.k)
    b = matrix_of(grid.b, grid.batch, grid.n, grid.k)
    made = CHIPS[chip]
    reasons = [x for x in (a, b) if isinstance(x, str)] + _refused_stores(grid)
    reasons += room(made, product_bytes(made), made.bn)
    if isinstance(a, Matrix) and isinstance(b, Matrix) and a.buffer.dtype != b.buffer.dtype:
        reasons.append(f"operands differ: {a.buffer.dtype.name} and {b.buffer.dtype.name}")
    if reasons or isinstance(a, str) or isinstance(b, str):
        return list(dict.fromkeys(reasons))
    return Product(program, grid, a, b)


def _refused_stores(grid: ir.DotGrid) -> list[str]:
    roots = [e for s in grid.stores for e in (s.value, *([] if s.mask is None else [s.mask]))]
    return refused_values(roots)


def refused_values(roots: Sequence[E]) -> list[str]:
    """What a thread of these kernels cannot compute of some expressions."""
    reasons = []
    for node in topological(tuple(roots)):
        if node.op in ("check_index", "local"):
            reasons.append(f"{node.op} in a thread's values")
        if node.dtype.name not in VALUES:
            reasons.append(f"{node.dtype.name} in a thread's values")
    return reasons
