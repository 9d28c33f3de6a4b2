"""Rows that are read more than once: the second reading asks for the row that comes next.

In: a grid whose instances are rows. Out: which of its statements reads a row again, and how far the
same element of the next row is. The first reading then finds its row in the cache, where it would
wait for memory while nothing is computed. Only hints: no value depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.backends.llvm.access import free_names, step_along
from rushlight.compiler.tile.ir import Buffer, Grid, Map, Reduce, Statement
from rushlight.ir.scalar import E

# The machine's own prefetching finds shorter rows.
LEAST_BYTES = 512


def rows_ahead(grid: Grid) -> tuple[int, Mapping[Buffer, int]]:
    """(number of the statement, elements from a row to the next of each buffer); (-1, {}): none."""
    seen: set[Buffer] = set()
    for number, statement in enumerate(grid.body):
        here = _rows_of(grid, statement)
        again = {buffer: distance for buffer, distance in here.items() if buffer in seen}
        if again:
            return number, again
        seen.update(here)
    return -1, {}


def _rows_of(grid: Grid, statement: Statement) -> dict[Buffer, int]:
    """The buffers of which it reads a row, and how far the next row is."""
    if not grid.axes or not isinstance(statement, Map | Reduce):
        return {}
    values: list[E]
    if isinstance(statement, Map):
        values = [store.value for store in statement.stores]
    else:
        values = [item.value for item in statement.items]
    names, found = free_names(values), {}
    for node in names:
        if node.op != "load" or node.args or not isinstance(node.meta[0], Buffer):
            continue
        buffer, at = node.meta
        distance = step_along(at, grid.axes[-1].name, names)
        if distance is not None and distance * buffer.dtype.itemsize >= LEAST_BYTES:
            found[buffer] = distance
    return found
