"""Substitution in tile programs, and merging of adjacent axes.

before   Map (i < 4, j < 8): y[i*8 + j] = x[i*8 + j]     after   Map (j < 32): y[j] = x[j]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    PairBins,
    PairSum,
    Product,
    Reduce,
    ReduceItem,
    Runs,
    Scan,
    ScatterGrid,
    Softmax,
    Sort,
    Statement,
    Store,
)
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, OpAtom, VarAtom
from rushlight.ir.symint_walk import substitute, variables

Mapping_ = Mapping[str, "int | Expr"]


class Substitution:
    """Replace index variables by expressions, in indices, extents and scalar expressions."""

    def __init__(
        self,
        mapping: Mapping_,
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
            mapping = dict(self.mapping)
            for name, var in variables(at).items():
                if var.kind == "value":
                    inner = self.expr(var.payload)  # type: ignore[arg-type]
                    high = None if var.atom.hi is None else self.index(var.atom.hi)
                    if inner is not var.payload or high != var.atom.hi:
                        mapping[name] = s.as_index(inner, var.atom.lo, high)  # type: ignore[arg-type]
            found = self._indices[at] = substitute(at, mapping)
        return found

    def expr(self, e: E) -> E:
        for node in s.topological([e]):
            if node not in self._done:
                self._done[node] = self._rebuild(node)
        return self._done[e]

    def _rebuild(self, node: E) -> E:
        args = tuple(self._done[a] for a in node.args)
        if node.op in ("load", "local"):
            buffer, at = node.meta
            return s.make(node.op, args, node.dtype, (self.dest(buffer), self.index(at)))
        if node.op == "index":
            return s.index(self.index(node.meta))
        if node.op == "check_index":
            size, site = node.meta
            return s.make(node.op, args, node.dtype, (self.index(size), site))
        return node if args == node.args else s.make(node.op, args, node.dtype, node.meta)

    def dest(self, buffer: Buffer | Local) -> Buffer | Local:
        if isinstance(buffer, Buffer):
            return self.buffers.get(buffer, buffer)
        tile = self._tiles.get(buffer)
        if tile is None:
            shape = tuple(self.index(n) for n in buffer.shape)
            tile = buffer if shape == buffer.shape else replace(buffer, shape=shape)
            self._tiles[buffer] = tile
        return tile

    def store(self, store: Store) -> Store:
        mask = None if store.mask is None else self.expr(store.mask)
        return Store(self.dest(store.dest), self.index(store.at), self.expr(store.value), mask)

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

    def statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Map):
            stores = tuple(self.store(store) for store in statement.stores)
            return Map(self.axis_list(statement.axes), stores)
        if isinstance(statement, Reduce):
            items = tuple(self.item(item) for item in statement.items)
            return Reduce(
                self.axis_list(statement.axes),
                self.axis_list(statement.over),
                items,
                statement.order,
            )
        if isinstance(statement, Scan):
            return replace(
                statement,
                axes=self.axis_list(statement.axes),
                over=self.axis(statement.over),
                value=self.expr(statement.value),
                dest=self.dest(statement.dest),
                at=self.index(statement.at),
            )
        if isinstance(statement, Sort):
            return replace(
                statement,
                over=self.axis(statement.over),
                key=self.expr(statement.key),
                dest=self.dest(statement.dest),
                at=self.index(statement.at),
            )
        body = tuple(self.statement(inner) for inner in statement.body)
        return Loop(self.axis(statement.axis), body)

    def item(self, item: ReduceItem) -> ReduceItem:
        finish = None if item.finish is None else self.expr(item.finish)
        return replace(
            item,
            value=self.expr(item.value),
            dest=self.dest(item.dest),
            at=self.index(item.at),
            finish=finish,
        )

    def grid(self, grid: AnyGrid) -> AnyGrid:
        if isinstance(grid, Grid):
            body = tuple(self.statement(inner) for inner in grid.body)
            return Grid(self.axis_list(grid.axes), body)
        if isinstance(grid, DotGrid):
            m, n, k = (self.axis(axis) for axis in (grid.m, grid.n, grid.k))
            stores = tuple(self.store(store) for store in grid.stores)
            return DotGrid(
                self.axis_list(grid.batch),
                m,
                n,
                k,
                self.expr(grid.a),
                self.expr(grid.b),
                grid.acc_dtype,
                stores,
            )
        if isinstance(grid, AttentionGrid):
            return self.attention(grid)
        return replace(
            grid,
            update=self.axis(grid.update),
            width=self.axis(grid.width),
            rows=self.index(grid.rows),
            row=self.expr(grid.row),
            value=self.expr(grid.value),
            dest=self.dest(grid.dest),
        )

    def attention(self, grid: AttentionGrid) -> AttentionGrid:
        return replace(
            grid,
            batch=self.axis_list(grid.batch),
            l=self.axis(grid.l),
            s=self.axis(grid.s),
            products=tuple(
                Product(self.axis(p.k), self.expr(p.a), self.expr(p.b)) for p in grid.products
            ),
            keep=None if grid.keep is None else self.expr(grid.keep),
            runs_l=self.runs(grid.runs_l),
            runs_s=self.runs(grid.runs_s),
            softmax=self.softmax(grid.softmax),
            sums=tuple(map(self.pair_sum, grid.sums)),
            bins=tuple(map(self.pair_bins, grid.bins)),
        )

    def runs(self, runs: Runs | None) -> Runs | None:
        if runs is None:
            return None
        parts = {name: self.expr(getattr(runs, name)) for name in RUN_PARTS}
        return replace(runs, row=self.axis(runs.row), run=self.axis(runs.run), **parts)

    def softmax(self, softmax: Softmax | None) -> Softmax | None:
        if softmax is None:
            return None
        lse, top = (
            tuple(map(self.store, stores)) for stores in (softmax.lse_stores, softmax.top_stores)
        )
        return replace(softmax, score=self.expr(softmax.score), lse_stores=lse, top_stores=top)

    def pair_sum(self, item: PairSum) -> PairSum:
        n = None if item.n is None else self.axis(item.n)
        other = None if item.other is None else self.expr(item.other)
        stores = tuple(map(self.store, item.stores))
        return PairSum(item.over, self.expr(item.weight), n, other, stores)

    def pair_bins(self, item: PairBins) -> PairBins:
        stores = tuple(map(self.store, item.stores))
        return PairBins(self.expr(item.weight), self.expr(item.bin), self.axis(item.n), stores)

    def axis(self, axis: Axis) -> Axis:
        return self.axis_list([axis])[0]


RUN_PARTS = ("begin", "end", "first", "stop", "code")


def roots_of(statement: Statement) -> Iterable[E]:
    """Every scalar expression of a statement, and its destinations' indices as index leaves."""
    if isinstance(statement, Map):
        for store in statement.stores:
            yield store.value
            yield s.index(store.at)
            if store.mask is not None:
                yield store.mask
    elif isinstance(statement, Reduce):
        for item in statement.items:
            yield item.value
            yield s.index(item.at)
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
        for store in grid.stores:
            yield store.value
            yield s.index(store.at)
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
    for store in attention_stores(grid):
        yield store.value
        yield s.index(store.at)


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


def coefficient(at: int | Expr, name: str) -> int | Expr | None:
    """The factor of an axis in an index; None when the index is not affine in it."""
    if not isinstance(at, Expr):
        return 0
    total: int | Expr = 0
    for monomial, coef in at.terms:
        count = 0
        rest: int | Expr = coef
        for atom in monomial:
            if isinstance(atom, VarAtom):
                if atom.name == name:
                    count += 1
                else:
                    rest = rest * atom.var
            else:
                assert isinstance(atom, OpAtom)
                if name in variables(atom.a) or name in variables(atom.b):
                    return None
                rest = rest * Expr((((atom,), 1),), 0)
        if count > 1:
            return None
        if count:
            total = total + rest
    return total


def merge_axes(
    axes: Sequence[Axis],
    exprs: Sequence[int | Expr],
    can_merge: Callable[[Axis, Axis], bool] = lambda a, b: True,
) -> tuple[list[Axis], dict[str, int | Expr], dict[str, tuple[Axis, ...]]]:
    """Join neighbours whose indices move together. Gives the new axes, the index mapping, and for
    every old axis the new ones that stand for it (an axis joined into the next one gives none)."""
    result: list[Axis] = []
    mapping: dict[str, int | Expr] = {}
    stands_for: dict[str, tuple[Axis, ...]] = {}
    pending = list(axes)
    while pending:
        axis = pending.pop(0)
        if axis.extent == 1 and (pending or result):
            mapping[axis.name] = 0
            stands_for[axis.name] = ()
            continue
        if (
            result
            and can_merge(result[-1], axis)
            and _moves_together(result[-1], axis, exprs, mapping)
        ):
            outer = result.pop()
            joined = Axis(axis.name, outer.extent * axis.extent)
            mapping[outer.name] = 0
            stands_for[outer.name] = ()
            stands_for[axis.name] = (joined,)
            mapping[axis.name] = joined.var
            result.append(joined)
        else:
            result.append(axis)
    return result, mapping, stands_for


def _moves_together(
    outer: Axis, inner: Axis, exprs: Sequence[int | Expr], mapping: Mapping_
) -> bool:
    for at in exprs:
        slow, fast = coefficient(at, outer.name), coefficient(at, inner.name)
        if slow is None or fast is None or slow != fast * inner.extent:
            return False
    return True
