"""Reduce in its canonical order, see [canonical sums] in tile/ir.

Rows are taken in blocks. For each chunk of elements, every (row, partial) pair is folded by one
thread; then halves are joined five times; chunk results are joined by one thread per row. A machine
without groups keeps the partials in an array and runs along memory instead:

    for c < 64, p < 32: part[64*p + c] = 0
    for f < n: for c < 64: part[f % 32 * 64 + c] += x[...]
    16, 8, 4, 2, 1: part[i] += part[i + width]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.bounds import at_most
from rushlight.backends.cfamily.context import Context, bound
from rushlight.backends.cfamily.monoid import Monoid, Parts, reduce_monoid
from rushlight.base.dtypes import int64
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.merge_axes import coefficient
from rushlight.compiler.tile.transform import index_exprs
from rushlight.ir import scalar as s
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_math import ceildiv, minimum, product

Index = int | Expr
Stored = tuple[tuple[c.Array, Index], ...]
Names = list[tuple[str, ...]]  # of variables: for each item those of its parts
MOST_ROWS = 64


@dataclass(frozen=True)
class _Fold:
    """One item: its monoid, and arrays of partial results, one per part."""

    item: ir.ReduceItem
    monoid: Monoid
    partials: Stored
    is_arg: bool

    def element(self, context: Context, position: Index) -> Parts:
        """The parts of one element; `position` in the flattened order."""
        value = context.expr(self.item.value)
        return (value, s.index(position)) if self.is_arg else (value,)


def lower_reduce(context: Context, statement: ir.Reduce) -> c.Block:
    return _Reduction(context, statement).run()


class _Reduction:
    def __init__(self, context: Context, statement: ir.Reduce) -> None:
        self.context, self.statement = context, statement
        self.rows = product(axis.extent for axis in statement.axes)
        self.count = product(axis.extent for axis in statement.over)
        self.is_tree = statement.order == "tree"
        rows, count = at_most(self.rows), at_most(self.count)
        self.in_one = isinstance(rows, int) and rows <= MOST_ROWS
        self.block = rows if isinstance(rows, int) and self.in_one else MOST_ROWS
        self.in_chunks = not (isinstance(count, int) and count <= ir.CHUNK)
        self.row_major = not self._runs_along_rows()
        # Threads of a row that exchange values; each has PARTIALS // lanes of its partials.
        # Wider subgroups than a row has partials would hold rows that not all threads work on.
        self.lanes = context.machine.subgroup
        can = context.threads > 1 and 1 < self.lanes <= ir.PARTIALS
        self.exchanges = can and self.row_major
        self.folds = [self._fold(item) for item in statement.items]
        self.row: tuple[ir.Axis, ...] = ()
        self.at: Index = 0
        self.first: Index = 0
        self._set_rows(self.rows)

    def _fold(self, item: ir.ReduceItem) -> _Fold:
        monoid = reduce_monoid(item.kind, item.value.dtype)
        is_joined = self.is_tree or self.exchanges
        size = self.block * (1 if is_joined else ir.PARTIALS)
        partials = self._arrays("part", monoid, size)
        return _Fold(item, monoid, partials, item.kind.startswith("arg"))

    def _arrays(self, stem: str, monoid: Monoid, size: Index) -> Stored:
        return tuple(self.context.array(stem, dtype, size) for dtype in monoid.dtypes)

    def _runs_along_rows(self) -> bool:
        """Is memory contiguous along the rows, and not along the elements of one?"""
        statement = self.statement
        if not statement.axes or not statement.over:
            return False
        places = index_exprs([item.value for item in statement.items])
        row, element = statement.axes[-1].name, statement.over[-1].name
        along_rows = sum(coefficient(at, row) == 1 for at in places)
        return along_rows > sum(coefficient(at, element) == 1 for at in places)

    def _set_rows(self, extent: Index) -> None:
        """The rows of a block: axes to go over, and where a row's partials are."""
        row = self.context.axis("row", extent)
        self.row, self.at = ((), 0) if extent == 1 else ((row,), row.var)

    def run(self) -> c.Block:
        context = self.context
        if self.in_one:
            return self._rows()
        blocks = context.axis("rows", ceildiv(self.rows, self.block))
        self.first = blocks.var * self.block
        self._set_rows(minimum(self.block, self.rows - self.first))
        body = (*self._rows(), *context.barrier())
        return (c.For(blocks.var, 0, blocks.extent, 1, body),)

    # one block of rows --------------------------------------------------------------------------

    def _rows(self) -> c.Block:
        context = self.context
        if self.is_tree:
            return (*self._tree_of_elements(), *context.barrier(), *self._finish())
        if not self.in_chunks:
            return (*self._chunk(0, self.count), *self._finish())
        chunk = context.axis("chunk", ceildiv(self.count, ir.CHUNK))
        start = chunk.var * ir.CHUNK
        results = [self._arrays("chunks", f.monoid, self.block * chunk.extent) for f in self.folds]
        body = (
            *self._chunk(start, minimum(ir.CHUNK, self.count - start)),
            *self._keep(results, chunk),
            *context.barrier(),
        )
        loop = c.For(chunk.var, 0, chunk.extent, 1, body)
        return (loop, *self._join_kept(results, chunk.extent), *context.barrier(), *self._finish())

    def _chunk(self, start: Index, count: Index) -> c.Block:
        """Partials of the elements start <= f < start + count, joined."""
        if self.exchanges:
            return (*self._fold_apart(start, count), *self.context.barrier())
        fold = self._fold_along if self.context.threads == 1 else self._fold_apart
        block = (*fold(start, count), *self.context.barrier())
        width = ir.PARTIALS
        while width > 1:
            width //= 2
            p = self.context.axis("p", width)
            sets = self._joined(p.var * self.block, (p.var + width) * self.block)
            block += self.context.spread((p, *self.row), lambda sets=sets: sets)
            block += self.context.barrier()
        return block

    def _joined(self, left: Index, right: Index) -> c.Block:
        """partial[left + row] = join(partial[left + row], partial[right + row])."""
        stores: list[c.Put] = []
        for fold in self.folds:
            a, b = (self._read(fold.partials, at + self.at) for at in (left, right))
            stores += self._write(fold.partials, left + self.at, fold.monoid.combine(a, b))
        return (c.Puts(tuple(stores)),)

    def _fold_apart(self, start: Index, count: Index) -> c.Block:
        """Each thread folds its partials in variables. The partials of a row are neighbours where
        that is how memory runs; then they may be joined without memory, too."""
        context = self.context
        each = ir.PARTIALS // self.lanes if self.exchanges else 1
        lane = context.axis("p", ir.PARTIALS // each)
        held = [self._names() for _ in range(each)]

        def body() -> Sequence[c.Code]:
            code: list[c.Code] = [*self._row_binds()]
            for number, names in enumerate(held):
                code += self._fold_partial(names, lane.var + number * self.lanes, start, count)
            if self.exchanges:
                code += self._exchange(held)
            place = self.at if self.exchanges else lane.var * self.block + self.at
            end: list[c.Put] = []
            for fold, names in zip(self.folds, held[0], strict=True):
                end += self._write(fold.partials, place, _named(names, fold))
            puts = c.Puts(tuple(end))
            if self.exchanges:
                first = s.eq(s.index(lane.var), s.const(0, int64))
                return (*code, c.If(first, (puts,)))
            return (*code, puts)

        axes = (*self.row, lane) if self.row_major else (lane, *self.row)
        return context.spread(axes, body)

    def _names(self) -> Names:
        fresh = self.context.fresh
        return [tuple(fresh("acc") for _ in f.monoid.identity) for f in self.folds]

    def _fold_partial(self, names: Names, partial: Index, start: Index, count: Index) -> c.Block:
        """One partial: every PARTIALS-th element."""
        step = Var(self.context.fresh("f"), 0, count - 1, "axis")
        begin, turn = [], []
        for fold, held in zip(self.folds, names, strict=True):
            element = fold.element(self.context, start + step)
            begin += zip(held, fold.monoid.identity, strict=True)
            turn += zip(held, fold.monoid.combine(_named(held, fold), element), strict=True)
        over = bound(self.statement.over, start + step)
        loop = c.For(step, partial, count, ir.PARTIALS, (*over, c.Set(tuple(turn))))
        return (c.Let(tuple(begin), True), loop)

    def _exchange(self, held: list[Names]) -> c.Block:
        """Halves are joined, width by width: partial p gets that of p + width, which is this
        thread's own or that of lane p + width."""
        block: list[c.Code] = []
        width = ir.PARTIALS
        while width > 1:
            width //= 2
            apart = width // self.lanes
            for names, others in zip(held[: max(1, apart)], held[apart:], strict=False):
                pairs = []
                for fold, mine, other in zip(self.folds, names, others, strict=True):
                    now, there = _named(mine, fold), _named(other, fold)
                    if not apart:
                        there = tuple(s.make("subgroup_down", (x,), x.dtype, width) for x in now)
                    pairs += zip(mine, fold.monoid.combine(now, there), strict=True)
                block.append(c.Set(tuple(pairs)))
        return tuple(block)

    def _fold_along(self, start: Index, count: Index) -> c.Block:
        """The thread folds in arrays, so that it runs along memory."""
        context = self.context
        size = self.block * ir.PARTIALS
        cell = context.axis("i", size)
        begin = []
        for fold in self.folds:
            begin += self._write(fold.partials, cell.var, fold.monoid.identity)
        block = context.nest((cell,), lambda: begin, True)
        whole, rest = count // ir.PARTIALS, count % ir.PARTIALS
        if whole != 0:
            step, lane = context.axis("s", whole), context.axis("p", ir.PARTIALS)
            position = start + step.var * ir.PARTIALS + lane.var
            block += self._fold_step((step, lane), lane, position)
        if rest != 0:
            lane = context.axis("p", rest)
            block += self._fold_step((lane,), lane, start + whole * ir.PARTIALS + lane.var)
        return block

    def _fold_step(self, axes: tuple[ir.Axis, ...], lane: ir.Axis, position: Index) -> c.Block:
        def body() -> Sequence[c.Code]:
            at = lane.var * self.block + self.at
            stores: list[c.Put] = []
            for fold in self.folds:
                new = fold.monoid.combine(
                    self._read(fold.partials, at), fold.element(self.context, position)
                )
                stores += self._write(fold.partials, at, new)
            over = bound(self.statement.over, position)
            return (*over, *self._row_binds(), c.Puts(tuple(stores)))

        # The cells of one step are different ones, so the last loop's turns are independent.
        return self.context.nest((*axes, *self.row), body, True)

    # chunk results ------------------------------------------------------------------------------

    def _keep(self, results: list[Stored], chunk: ir.Axis) -> c.Block:
        stores: list[c.Put] = []
        for fold, arrays in zip(self.folds, results, strict=True):
            at = self.at * chunk.extent + chunk.var
            stores += self._write(arrays, at, self._read(fold.partials, self.at))
        return self.context.spread(self.row, lambda: (c.Puts(tuple(stores)),))

    def _tree_of_elements(self) -> c.Block:
        """order "tree": the elements are chunk results already."""
        context, element = self.context, self.context.axis("f", self.count)
        results = [self._arrays("chunks", f.monoid, self.block * self.count) for f in self.folds]

        def body() -> Sequence[c.Code]:
            stores: list[c.Put] = []
            for fold, arrays in zip(self.folds, results, strict=True):
                at = self.at * self.count + element.var
                stores += self._write(arrays, at, fold.element(context, element.var))
            over = bound(self.statement.over, element.var)
            return (*over, *self._row_binds(), c.Puts(tuple(stores)))

        block = context.spread((*self.row, element), body)
        return (*block, *context.barrier(), *self._join_kept(results, self.count))

    def _join_kept(self, results: list[Stored], count: Index) -> c.Block:
        """The tree over neighbours, by one thread per row: level by level, in place."""
        left = self.context.fresh("left")
        pair = Var(self.context.fresh("pair"), 0, count, "axis")
        now = self.context.counter(left)
        base = self.at * count

        def body() -> Sequence[c.Code]:
            code: list[c.Code] = [c.Let(((left, self.context.whole(count)),), True)]
            joins: list[c.Put] = []
            lasts: list[c.Put] = []
            found: list[c.Put] = []
            half, last = s.as_index(s.idiv(now, 2)), s.as_index(now - 1)
            for fold, arrays in zip(self.folds, results, strict=True):
                two = (self._read(arrays, base + 2 * pair + i) for i in (0, 1))
                joins += self._write(arrays, base + pair, fold.monoid.combine(*two))
                lasts += self._write(arrays, base + half, self._read(arrays, base + last))
                found += self._write(fold.partials, self.at, self._first(fold, arrays, base))
            odd = s.eq(s.irem(now, 2), s.const(1, now.dtype))
            level = (
                c.For(pair, 0, half, 1, (c.Puts(tuple(joins)),)),
                c.If(odd, (c.Puts(tuple(lasts)),)),
                c.Set(((left, s.idiv(now + 1, 2)),)),
            )
            code.append(c.While(s.gt(now, s.const(1, now.dtype)), level))
            return (*code, c.Puts(tuple(found)))

        return self.context.spread(self.row, body)

    def _first(self, fold: _Fold, arrays: Stored, base: Index) -> Parts:
        """The only result left; the identity where there was none."""
        if isinstance(self.count, int) and self.count > 0:
            return self._read(arrays, base)
        some = s.gt(s.index(self.count), s.const(0, int64))
        return tuple(
            s.load(array, offset + base, some, identity)
            for (array, offset), identity in zip(arrays, fold.monoid.identity, strict=True)
        )

    # results ------------------------------------------------------------------------------------

    def _finish(self) -> c.Block:
        def body() -> Sequence[c.Code]:
            stores = [self._result(fold) for fold in self.folds]
            return (*self._row_binds(), c.Puts(tuple(stores)))

        return self.context.spread(self.row, body)

    def _result(self, fold: _Fold) -> c.Put:
        found = self._read(fold.partials, self.at)[-1]
        if fold.is_arg:  # an empty row has no position
            found = s.select(s.eq(found, s.const((1 << 63) - 1, int64)), 0, found)
        if fold.item.finish is not None:
            found = self.context.expr(fold.item.finish, found)
        return self.context.put(fold.item.dest, fold.item.at, found)

    def _row_binds(self) -> tuple[c.Bind, ...]:
        return bound(self.statement.axes, self.first + self.at)

    def _read(self, arrays: Stored, at: Index) -> Parts:
        return tuple(s.load(array, offset + at) for array, offset in arrays)

    def _write(self, arrays: Stored, at: Index, parts: Parts) -> list[c.Put]:
        return [
            c.Put(array, offset + at, part)
            for (array, offset), part in zip(arrays, parts, strict=True)
        ]


def _named(names: tuple[str, ...], fold: _Fold) -> Parts:
    """The variables that hold a running result."""
    return tuple(s.param(n, d) for n, d in zip(names, fold.monoid.dtypes, strict=True))
