"""How many threads a group has, and how many instances of a grid it takes.

In: grids. Out: grids whose instances are work enough for a group.

before   grid (row < 4096) { reduce () over (k < 100): y[row] = sum x[100*row + k] }
after    grid (g < 512) { reduce (j < 8) over (k < 100): y[8*g + j] = sum x[100*(8*g + j) + k] }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rushlight.backends.cfamily.bounds import at_most
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.scan import in_subgroups
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.coords import unravel
from rushlight.compiler.tile.transform import Substitution, tiles_of
from rushlight.ir.symint_math import ceildiv, minimum, product
from rushlight.ir.symint_walk import variables

LEAST = 32
UNKNOWN = 1 << 30


def threads_for(body: Sequence[ir.Statement], machine: Machine) -> int:
    """A power of two, enough for the statement with the most points."""
    threads = min(LEAST, machine.threads)
    most = max((points_of(statement, machine) for statement in body), default=1)
    while threads < most and 2 * threads <= machine.threads:
        threads *= 2
    return threads


def points_of(statement: ir.Statement, machine: Machine) -> int:
    """How many threads could work on it at once."""
    if isinstance(statement, ir.Loop):
        return max((points_of(inner, machine) for inner in statement.body), default=1)
    if isinstance(statement, ir.Sort):
        return UNKNOWN
    rows = _count(statement.axes)
    if isinstance(statement, ir.Scan) and in_subgroups(statement, machine):
        return rows * machine.subgroup
    return rows * ir.PARTIALS if isinstance(statement, ir.Reduce) else rows


def _count(axes: Sequence[ir.Axis]) -> int:
    total = 1
    for axis in axes:
        bound = at_most(axis.extent)
        if not isinstance(bound, int):
            return UNKNOWN
        total *= bound
    return total


def lend_axes(grid: ir.Grid, machine: Machine) -> ir.Grid:
    """Several instances in one, as axes of the grid's only statement."""
    if machine.threads == 1 or len(grid.body) != 1 or not grid.axes or tiles_of(grid):
        return grid
    (statement,) = grid.body
    if not isinstance(statement, ir.Map | ir.Reduce | ir.Scan):
        return grid
    if any(v.kind == "axis" for axis in grid.axes for v in variables(axis.extent).values()):
        return grid
    taken = machine.threads // max(1, points_of(statement, machine))
    if taken < 2:
        return grid
    lead = product(axis.extent for axis in grid.axes)
    group = ir.Axis("lent_group", ceildiv(lead, taken))
    lent = ir.Axis("lent_row", minimum(taken, lead - group.var * taken))
    at = unravel(group.var * taken + lent.var, [axis.extent for axis in grid.axes])
    change = Substitution({axis.name: i for axis, i in zip(grid.axes, at, strict=True)})
    moved = change.statement(statement)
    assert isinstance(moved, ir.Map | ir.Reduce | ir.Scan)
    return ir.Grid((group,), (replace(moved, axes=(lent, *moved.axes)),))
