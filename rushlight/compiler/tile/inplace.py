"""May a result of a kernel be written over one of its inputs?

In: a program, the buffer of an input and that of a result. Out: True when every element of the
result needs, of the input, only its own (or those that its point writes): it is read where it is
written, at the same point, and by no later grid. A point computes its values before its first store
(tile/ir.py), so both may then be the same memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushlight.compiler.tile.ir import (
    AnyGrid,
    AttentionGrid,
    Buffer,
    DotGrid,
    Grid,
    Local,
    Loop,
    Map,
    Program,
    Reduce,
    ScatterGrid,
    Statement,
    Store,
)
from rushlight.compiler.tile.transform import attention_stores, grid_roots, roots_of
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr

# A store: the buffer, the offset (None: not known) and the expressions that it evaluates.
_Put = tuple[Buffer | Local, "int | Expr | None", list[E]]
# What is evaluated together at a point, before its first store: stores, and what else is read.
_Part = tuple[list[_Put], list[E]]


class Places:
    """Where a program reads and writes, found once: a fused update asks for hundreds of pairs."""

    def __init__(self, program: Program) -> None:
        *earlier, last = [list(_parts(grid)) for grid in program.grids]
        self._earlier = {put[0] for parts in earlier for puts, _ in parts for put in puts}
        # What the stores to a buffer evaluate, in all grids.
        self._made: dict[Buffer | Local, list[E]] = {}
        for puts, _ in (part for parts in (*earlier, last) for part in parts):
            for dest, _, exprs in puts:
                self._made.setdefault(dest, []).extend(exprs)
        # Of the last grid, by buffer: (number of the part, offset) of each store and each load.
        self._stores: dict[Buffer | Local, list[tuple[int, int | Expr | None]]] = {}
        self._loads: dict[Buffer, set[tuple[int, int | Expr]]] = {}
        for number, part in enumerate(last):
            for dest, at, _ in part[0]:
                self._stores.setdefault(dest, []).append((number, at))
            for e in s.topological(_roots(part)):
                if e.op == "load":
                    self._loads.setdefault(e.meta[0], set()).add((number, e.meta[1]))

    def reads_own_element(self, source: Buffer, result: Buffer) -> bool:
        """See above. Earlier grids may read the source anywhere: they are done before the last."""
        stores = self._stores.get(result, [])
        if result in self._earlier or len({number for number, _ in stores}) != 1:
            return False
        places = {place for place in stores if place[1] is not None}
        # A store at an unknown place, or two at one place, say nothing about elements.
        return len(places) == len(stores) and self._loads.get(source, set()) <= places

    def distances(self, result: Buffer) -> dict[Buffer, int]:
        """The buffers from which the elements of a result are made, as they are stored, and by how
        many operations one after the other (the shortest way)."""
        here = self._made.get(result, [])
        found: dict[Buffer, int] = {}
        seen: set[E] = set()
        distance = 0
        while here:
            below: list[E] = []
            for e in here:
                if e in seen:
                    continue
                seen.add(e)
                below += s.children(e)
                if e.op == "load":
                    found.setdefault(e.meta[0], distance)
            here, distance = below, distance + 1
        return found


def _roots(part: _Part) -> list[E]:
    return [*part[1], *(root for _, _, exprs in part[0] for root in exprs)]


def _parts(grid: AnyGrid) -> Iterable[_Part]:
    if isinstance(grid, Grid):
        yield from _statements(grid.body)
    elif isinstance(grid, DotGrid):
        yield [], [grid.a, grid.b]
        yield _puts(grid.stores), []
    elif isinstance(grid, AttentionGrid):
        stores = attention_stores(grid)
        yield [(store.dest, None, []) for store in stores], list(grid_roots(grid))
    else:
        assert isinstance(grid, ScatterGrid)
        yield [(grid.dest, None, [])], list(grid_roots(grid))


def _statements(body: Sequence[Statement]) -> Iterable[_Part]:
    for statement in body:
        if isinstance(statement, Loop):
            yield from _statements(statement.body)
        elif isinstance(statement, Map):
            yield _puts(statement.stores), []
        elif isinstance(statement, Reduce):
            yield [], [item.value for item in statement.items]
            for item in statement.items:
                finish = [] if item.finish is None else [item.finish]
                yield [(item.dest, item.at, [*finish, s.index(item.at)])], []
        else:
            yield [(statement.dest, None, [])], list(roots_of(statement))


def _puts(stores: Sequence[Store]) -> list[_Put]:
    found: list[_Put] = []
    for store in stores:
        mask = [] if store.mask is None else [store.mask]
        found.append((store.dest, store.at, [store.value, s.index(store.at), *mask]))
    return found
