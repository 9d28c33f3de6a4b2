"""Cut axes so that div and mod disappear from indices: a reshape inside a kernel costs nothing.

before   map (i < 384): y[i] = x[i % 32 + 4096*(i // 32)]
after    map (io < 12, ii < 32): y[32*io + ii] = x[ii + 4096*io]

An axis is cut at c when an index holds `i // c` or `i % c` and c divides its extent. The order of
points stays: the outer part is outside. The axis along which a Map writes memory side by side is
not cut into pieces of a few elements: they would leave a vector nothing to run along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rushlight.compiler.tile.ir import Axis, Grid, Loop, Map, Reduce, Scan, Sort, Statement
from rushlight.compiler.tile.merge_axes import coefficient
from rushlight.compiler.tile.transform import Substitution, grid_roots, index_exprs
from rushlight.ir.symint import Expr, OpAtom, VarAtom

MAX_CUTS = 8
FEW = 8


def split_axes(grid: Grid) -> Grid:
    """The grid with every axis cut where its indices ask for it."""
    for number in range(MAX_CUTS):
        cut = _find_cut(grid)
        if cut is None:
            return grid
        axis, step = cut
        outer = Axis(f"{axis.name}o{number}", axis.extent // step)
        inner = Axis(f"{axis.name}i{number}", step)
        change = Substitution(
            {axis.name: outer.var * step + inner.var}, {axis.name: (outer, inner)}
        )
        changed = change.grid(grid)
        assert isinstance(changed, Grid)
        grid = changed
    return grid


def _find_cut(grid: Grid) -> tuple[Axis, int] | None:
    axes = {axis.name: axis for axis in _cuttable(grid)}
    written = set(_written_along(grid.body))
    for at in index_exprs(grid_roots(grid)):
        for name, step in _wishes(at):
            axis = axes.get(name)
            if axis is None or not isinstance(axis.extent, int):
                continue
            least = FEW if name in written and axis.extent >= FEW else 2
            if least <= step < axis.extent and axis.extent % step == 0:
                return axis, step
    return None


def _written_along(body: tuple[Statement, ...]) -> Iterator[str]:
    """The inner axes of Maps whose stores all go along them."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from _written_along(statement.body)
        elif isinstance(statement, Map) and statement.axes:
            name = statement.axes[-1].name
            if all(coefficient(store.at, name) == 1 for store in statement.stores):
                yield name


def _wishes(at: int | Expr) -> Iterator[tuple[str, int]]:
    """(axis, c) for every `k*axis // (k*c)` or `% (k*c)` inside an index."""
    if not isinstance(at, Expr):
        return
    for atom in at.atoms():
        if not isinstance(atom, OpAtom) or atom.op not in ("floordiv", "mod"):
            continue
        yield from _wishes(atom.a)
        if not isinstance(atom.b, int) or not isinstance(atom.a, Expr):
            continue
        for (first, *others), factor in atom.a.terms:
            if not isinstance(first, VarAtom) or others:
                continue
            if factor > 0 and atom.b % factor == 0:
                yield first.name, atom.b // factor


def _cuttable(grid: Grid) -> Iterable[Axis]:
    """Axes that may become two: not those of scans and sorts, which are one by definition."""
    yield from grid.axes
    yield from _of_statements(grid.body)


def _of_statements(body: tuple[Statement, ...]) -> Iterator[Axis]:
    for statement in body:
        if isinstance(statement, Map):
            yield from statement.axes
        elif isinstance(statement, Reduce):
            yield from (*statement.axes, *statement.over)
        elif isinstance(statement, Scan):
            yield from statement.axes
        elif isinstance(statement, Loop):
            yield from _of_statements(statement.body)
        else:
            assert isinstance(statement, Sort)
