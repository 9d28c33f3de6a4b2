"""Substitution in tile programs, and what a program refers to.

before   Map (j < 8): y[j] = x[j]     j -> 2*k:   y[2*k] = x[2*k]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rushlight.compiler.tile.ir import (
    AnyGrid,
    AttentionGrid,
    Axis,
    Buffer,
    DotGrid,
    Grid,
    Local,
    Loop,
    Map,
    Reduce,
    ReduceItem,
    Scan,
    ScatterGrid,
    Sort,
    Statement,
    Store,
)
from rushlight.compiler.tile.rewrite import PARTS
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import substitute, variables

IndexMapping = Mapping[str, "int | Expr"]


class Substitution:
    """Replace index variables by expressions, in indices, extents and scalar expressions."""

    def __init__(
        self,
        mapping: IndexMapping,
        axes: Mapping[str, tuple[Axis, ...]] | None = None,
        buffers: Mapping[Buffer, Buffer] | None = None,
    ) -> None:
        self.mapping = mapping
        self.axes = axes or {}
        self.buffers = buffers or {}
        self._done: dict[E, E] = {}
        self._indices: dict[Expr, int | Expr] = {}
        self._tiles: dict[Local, Local] = {}

    def index(self, at: int | Expr) -> int | Expr:
        if not isinstance(at, Expr):
            return at
        found = self._indices.get(at)
        if found is None:
            mapping = {**self.mapping, **self._new_values(at)}
            found = self._indices[at] = substitute(at, mapping)
        return found

    def _new_values(self, at: Expr) -> dict[str, int | Expr]:
        """The loaded values in an index that become others."""
        found: dict[str, int | Expr] = {}
        for name, var in variables(at).items():
            if var.kind != "value":
                continue
            inner = self.expr(var.payload)  # type: ignore[arg-type]
            high = None if var.atom.hi is None else self.index(var.atom.hi)
            if inner is not var.payload or high != var.atom.hi:
                found[name] = s.as_index(inner, var.atom.lo, high)  # type: ignore[arg-type]
        return found

    def expr(self, e: E) -> E:
        for node in s.topological([e]):
            if node not in self._done:
                self._done[node] = self._rebuild(node)
        return self._done[e]

    def _rebuild(self, node: E) -> E:
        args = tuple(self._done[a] for a in node.args)
        if node.op in ("load", "local"):
            return s.make(node.op, args, node.dtype, self.place(*node.meta))
        if node.op == "index":
            return s.index(self.index(node.meta))
        if node.op == "check_index":
            size, site = node.meta
            return s.make(node.op, args, node.dtype, (self.index(size), site))
        return node if args == node.args else s.make(node.op, args, node.dtype, node.meta)

    def place(self, dest: Buffer | Local, at: int | Expr) -> tuple[Buffer | Local, int | Expr]:
        """Where an element is read or written: its buffer or tile, and the offset there."""
        return self.dest(dest), self.index(at)

    def dest(self, buffer: Buffer | Local) -> Buffer | Local:
        if isinstance(buffer, Buffer):
            return self.buffers.get(buffer, buffer)
        tile = self._tiles.get(buffer)
        if tile is None:
            shape = tuple(self.index(n) for n in buffer.shape)
            tile = buffer if shape == buffer.shape else replace(buffer, shape=shape)
            self._tiles[buffer] = tile
        return tile

    def axis_list(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        result: list[Axis] = []
        for axis in axes:
            new = self.axes.get(axis.name)
            if new is not None:
                result.extend(a for a in new if a not in result)
            else:
                extent = self.index(axis.extent)
                result.append(axis if extent == axis.extent else Axis(axis.name, extent))
        return tuple(result)

    def store(self, store: Store) -> Store:
        return self._part(store)

    def statement(self, statement: Statement) -> Statement:
        return self._part(statement)

    def grid(self, grid: AnyGrid) -> AnyGrid:
        return self._part(grid)

    def _part(self, part: Any) -> Any:
        """Whatever grids are made of, field by field."""
        if isinstance(part, E):
            return self.expr(part)
        if isinstance(part, Expr):
            return self.index(part)
        if isinstance(part, Axis):
            return self.axis_list([part])[0]
        if isinstance(part, (Buffer, Local)):
            return self.dest(part)
        if isinstance(part, tuple):
            all_axes = bool(part) and isinstance(part[0], Axis)
            return self.axis_list(part) if all_axes else tuple(map(self._part, part))
        if not isinstance(part, PARTS):
            return part
        changed = {name: self._part(getattr(part, name)) for name in part.__dataclass_fields__}
        if isinstance(part, (Store, ReduceItem, Scan, Sort)):
            changed["dest"], changed["at"] = self.place(part.dest, part.at)
        return replace(part, **changed)


RUN_PARTS = ("begin", "end", "first", "stop", "code")


def store_roots(stores: Iterable[Store]) -> Iterable[E]:
    """Values, offsets (as index leaves) and masks."""
    for store in stores:
        yield store.value
        yield s.index(store.at)
        if store.mask is not None:
            yield store.mask


def roots_of(statement: Statement) -> Iterable[E]:
    """Every scalar expression of a statement, and its destinations' indices as index leaves."""
    if isinstance(statement, Map):
        yield from store_roots(statement.stores)
    elif isinstance(statement, Reduce):
        for item in statement.items:
            yield item.value
            yield s.index(item.at)
            if item.finish is not None:
                yield item.finish
    elif isinstance(statement, Scan):
        yield statement.value
        yield s.index(statement.at)
    elif isinstance(statement, Sort):
        yield statement.key
        yield s.index(statement.at)
    else:
        for inner in statement.body:
            yield from roots_of(inner)


def grid_roots(grid: AnyGrid) -> Iterable[E]:
    if isinstance(grid, Grid):
        for statement in grid.body:
            yield from roots_of(statement)
    elif isinstance(grid, DotGrid):
        yield grid.a
        yield grid.b
        yield from store_roots(grid.stores)
    elif isinstance(grid, AttentionGrid):
        yield from attention_roots(grid)
    elif isinstance(grid, ScatterGrid):
        yield grid.row
        yield grid.value


def attention_roots(grid: AttentionGrid) -> Iterable[E]:
    for product in grid.products:
        yield from (product.a, product.b)
    for item in grid.sums:
        yield item.weight
        if item.other is not None:
            yield item.other
    for bins in grid.bins:
        yield from (bins.weight, bins.bin)
    if grid.keep is not None:
        yield grid.keep
    for runs in (grid.runs_l, grid.runs_s):
        if runs is not None:
            yield from (getattr(runs, name) for name in RUN_PARTS)
    if grid.softmax is not None:
        yield grid.softmax.score
    yield from store_roots(attention_stores(grid))


def attention_stores(grid: AttentionGrid) -> list[Store]:
    """Of all results."""
    stores = [store for item in (*grid.sums, *grid.bins) for store in item.stores]
    if grid.softmax is not None:
        stores += (*grid.softmax.lse_stores, *grid.softmax.top_stores)
    return stores


def index_exprs(roots: Iterable[E]) -> list[int | Expr]:
    """Every index expression below the roots, each once."""
    found: dict[int | Expr, None] = {}
    for e in s.topological(list(roots)):
        if e.op in ("load", "local"):
            found[e.meta[1]] = None
        elif e.op == "index":
            found[e.meta] = None
    return list(found)


def checked_sizes(roots: Iterable[E]) -> list[int | Expr]:
    """The bounds of all index checks below the roots."""
    return [e.meta[0] for e in s.topological(list(roots)) if e.op == "check_index"]


def tiles_of(grid: AnyGrid) -> list[Local]:
    """Every tile that a grid stores to, each once."""
    found: dict[Local, None] = {}
    pending: list[Statement] = list(reversed(grid.body)) if isinstance(grid, Grid) else []
    while pending:
        statement = pending.pop()
        if isinstance(statement, Loop):
            pending.extend(reversed(statement.body))
            continue
        parts: Sequence[Any]
        if isinstance(statement, Map):
            parts = statement.stores
        elif isinstance(statement, Reduce):
            parts = statement.items
        else:
            parts = (statement,)
        found.update((part.dest, None) for part in parts if isinstance(part.dest, Local))
    return list(found)
