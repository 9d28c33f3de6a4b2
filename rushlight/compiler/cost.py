"""How many bytes a tile program moves and how many floating-point operations it does.

In: a Program (best before math functions are expanded, so that exp counts as one operation) and
its sizes. Out: a `Cost`. An estimate for people: of a buffer, no more bytes are counted than it
has, and every float operation of an expression counts for each point of its domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from rushlight.compiler.tile.ir import (
    AnyGrid,
    AttentionGrid,
    Axis,
    Buffer,
    DotGrid,
    Grid,
    Loop,
    Map,
    Program,
    Reduce,
    Scan,
    Sort,
    Statement,
    Store,
)
from rushlight.ir import scalar
from rushlight.ir.scalar import E
from rushlight.ir.symint_walk import evaluate, variables

NO_WORK = frozenset("const param index load local acc cast bitcast check_index select".split())


@dataclass(frozen=True)
class Cost:
    """Of one run: bytes moved between memory and the kernel, operations of floats."""

    bytes: int = 0
    flops: int = 0


def cost_of(program: Program, sizes: Mapping[str, int]) -> Cost:
    count = _Count(dict(sizes))
    for grid in program.grids:
        count.grid(grid)
    moved = 0
    for (buffer, _), elements in count.touched.items():
        if buffer.role != "scratch":
            moved += min(elements, evaluate(buffer.size, sizes)) * buffer.dtype.itemsize
    return Cost(moved, count.flops)


@dataclass
class _Count:
    """touched: (buffer, is a store) -> elements."""

    sizes: dict[str, int]
    touched: dict[tuple[Buffer, bool], int] = field(default_factory=dict)
    flops: int = 0

    def grid(self, grid: AnyGrid) -> None:
        if isinstance(grid, Grid):
            for statement in grid.body:
                self.statement(grid.axes, statement)
        elif isinstance(grid, DotGrid):
            outer = (*grid.batch, grid.m, grid.n)
            points = volume((*outer, grid.k), self.sizes)
            self.flops += 2 * points
            for operand, skipped in ((grid.a, grid.n), (grid.b, grid.m)):
                axes = [axis for axis in (*outer, grid.k) if axis is not skipped]
                self.exprs([operand], volume(axes, self.sizes))
            self.stores(grid.stores, volume(outer, self.sizes))
        elif isinstance(grid, AttentionGrid):
            self.attention(grid)
        else:
            points = volume((grid.update, grid.width), self.sizes)
            self.exprs([grid.row, grid.value], points)
            self.touch(grid.dest, True, points)
            self.touch(grid.dest, False, 0 if grid.kind == "set" else points)
            self.flops += points if grid.kind != "set" else 0

    def attention(self, grid: AttentionGrid) -> None:
        """As if every query looked at every key."""
        pairs = volume((*grid.batch, grid.l, grid.s), self.sizes)
        for product in grid.products:
            self.flops += 2 * pairs * volume((product.k,), self.sizes)
            for operand, axis in ((product.a, grid.l), (product.b, grid.s)):
                self.exprs([operand], volume((*grid.batch, axis, product.k), self.sizes))
        queries = volume((*grid.batch, grid.l), self.sizes)
        if grid.softmax is not None:
            self.flops += 3 * pairs  # the exponential, its argument, the sum
            self.exprs([grid.softmax.score], pairs)
            self.stores(grid.softmax.lse_stores, queries)
            self.stores(grid.softmax.top_stores, queries)
        self.exprs([item.weight for item in grid.sums], pairs)
        for item in grid.sums:
            n = () if item.n is None else (item.n,)
            summed, kept = (grid.l, grid.s) if item.over == "l" else (grid.s, grid.l)
            self.flops += 2 * pairs * volume(n, self.sizes)
            if item.other is not None:
                self.exprs([item.other], volume((*grid.batch, summed, *n), self.sizes))
            self.stores(item.stores, volume((*grid.batch, kept, *n), self.sizes))
        for item in grid.bins:
            self.flops += pairs
            self.exprs([item.weight, item.bin], pairs)
            self.stores(item.stores, volume((*grid.batch, item.n), self.sizes))

    def statement(self, outer: Sequence[Axis], statement: Statement) -> None:
        if isinstance(statement, Loop):
            for inner in statement.body:
                self.statement((*outer, statement.axis), inner)
        elif isinstance(statement, Map):
            self.stores(statement.stores, volume((*outer, *statement.axes), self.sizes))
        elif isinstance(statement, Reduce):
            rows = volume((*outer, *statement.axes), self.sizes)
            points = volume((*outer, *statement.axes, *statement.over), self.sizes)
            self.exprs([item.value for item in statement.items], points)
            for item in statement.items:
                self.flops += points if item.value.dtype.is_floating_point else 0
                self.touch(item.dest, True, rows)
        elif isinstance(statement, Scan):
            points = volume((*outer, *statement.axes, statement.over), self.sizes)
            self.exprs([statement.value], points)
            self.flops += points if statement.value.dtype.is_floating_point else 0
            self.touch(statement.dest, True, points)
        elif isinstance(statement, Sort):
            points = volume((*outer, statement.over), self.sizes)
            self.exprs([statement.key], points)
            points = volume((*outer, statement.stored), self.sizes)
            self.touch(statement.dest, True, points)

    def stores(self, stores: Iterable[Store], points: int) -> None:
        stores = tuple(stores)
        self.exprs([store.value for store in stores], points)
        for store in stores:
            self.touch(store.dest, True, points)

    def exprs(self, roots: Sequence[E], points: int) -> None:
        for node in scalar.topological(tuple(roots)):
            if node.op == "load":
                self.touch(node.meta[0], False, points)
            elif node.op not in NO_WORK and node.dtype.is_floating_point:
                self.flops += points * (2 if node.op == "fma" else 1)

    def touch(self, dest: object, is_store: bool, elements: int) -> None:
        if isinstance(dest, Buffer):
            key = (dest, is_store)
            self.touched[key] = self.touched.get(key, 0) + elements


def volume(axes: Sequence[Axis], sizes: Mapping[str, int]) -> int:
    """Points of nested axes. Of an extent that depends on an outer axis (the last block is
    short) the values at the outer axis' first and last turn are taken."""
    env = dict(sizes)
    known: dict[str, int] = {}
    extents: list[float] = []
    for axis in axes:
        names = [name for name in variables(axis.extent) if name in known]
        first = evaluate(axis.extent, {**env, **dict.fromkeys(names, 0)})
        mean: float = first
        if names:
            turns = max(1, known[names[0]])
            last = evaluate(axis.extent, {**env, **{name: known[name] - 1 for name in names}})
            mean = (first * (turns - 1) + last) / turns
        known[axis.name] = first
        extents.append(mean)
    return round(prod(extents))
