"""What a statement asks for before it is read, where the machine's own prefetching finds nothing.

In: a grid whose instances are rows. Out: for each statement how far the element is that a load of a
buffer asks for as well. Only hints: no value depends on them. Two cases:

* A row that is read a second time: that reading asks for the next row. The first reading of it then
  finds it in the cache, where it would wait for memory while nothing is computed.
* A row in pieces far apart (a channel of many images), read for the first time: each piece asks for
  a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from rushlight.backends.llvm.access import free_names, step_along
from rushlight.compiler.tile.ir import Axis, Buffer, Grid, Map, Reduce, Statement
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr

# The machine's own prefetching finds shorter rows.
LEAST_BYTES = 512
# Pieces between which it loses track, and how far ahead of them is soon enough.
PIECE_BYTES = 1 << 13
PIECES_AHEAD_BYTES = 2048


def rows_ahead(grid: Grid) -> list[Mapping[Buffer, int]]:
    """For each statement: elements from a load of a buffer to what it asks for."""
    asks: list[Mapping[Buffer, int]] = []
    seen: set[Buffer] = set()
    is_done = False
    for statement in grid.body:
        here = _rows_of(grid, statement)
        again = {} if is_done else {b: distance for b, distance in here.items() if b in seen}
        is_done = is_done or bool(again)
        first = {b: n for b, n in _pieces_of(statement).items() if b not in seen}
        asks.append(first | again)
        seen.update(here, first)
    return asks


def _rows_of(grid: Grid, statement: Statement) -> dict[Buffer, int]:
    """The buffers of which it reads a row, and how far the next row is."""
    if not grid.axes:
        return {}
    found, names = {}, free_names(_values(statement))
    for buffer, at in _loads(names):
        distance = step_along(at, grid.axes[-1].name, names)
        if distance is not None and distance * buffer.dtype.itemsize >= LEAST_BYTES:
            found[buffer] = distance
    return found


def _pieces_of(statement: Statement) -> dict[Buffer, int]:
    """The buffers that it reads in pieces along its first axis, and how far a later piece is."""
    axes = _axes(statement)
    if len(axes) < 2 or not all(isinstance(axis.extent, int) for axis in axes):
        return {}
    found, names = {}, free_names(_values(statement))
    for buffer, at in _loads(names):
        step = step_along(at, axes[0].name, names)
        size = prod(axis.extent for axis in axes[1:])
        piece = size * buffer.dtype.itemsize
        if step is not None and abs(step) > size and 0 < piece <= PIECE_BYTES:
            found[buffer] = step * max(1, PIECES_AHEAD_BYTES // piece)
    return found


def _axes(statement: Statement) -> tuple[Axis, ...]:
    if isinstance(statement, Map):
        return statement.axes
    return statement.over if isinstance(statement, Reduce) and not statement.axes else ()


def _values(statement: Statement) -> list[E]:
    if isinstance(statement, Map):
        return [store.value for store in statement.stores]
    return [item.value for item in statement.items] if isinstance(statement, Reduce) else []


def _loads(names: Mapping[E, frozenset[str]]) -> list[tuple[Buffer, int | Expr]]:
    """Whole loads of memory."""
    return [
        node.meta
        for node in names
        if node.op == "load" and not node.args and isinstance(node.meta[0], Buffer)
    ]
