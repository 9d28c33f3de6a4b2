"""Scan: an inclusive left fold along an axis.

In a group of threads a long row is cut into blocks of BLOCK elements: a thread folds a block, one
thread folds the results of the blocks from left to right, then each block is folded again from what
stands before it. So a float sum over more than BLOCK elements is added in another order than the
left fold: it depends on the length alone, and all else (whole numbers, extremes) is exact.
A machine without groups folds from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Context, Index, bound
from rushlight.backends.cfamily.monoid import Parts, scan_monoid
from rushlight.compiler.tile import ir
from rushlight.ir import scalar as s
from rushlight.ir.symint import Var, ceildiv, is_nonnegative, minimum, product

BLOCK = 256


def lower_scan(context: Context, statement: ir.Scan) -> c.Block:
    scan = _Scan(context, statement)
    in_one = context.threads == 1 or is_nonnegative(BLOCK - statement.over.extent)
    return scan.rows() if in_one else scan.blocks()


class _Scan:
    def __init__(self, context: Context, statement: ir.Scan) -> None:
        self.context, self.statement = context, statement
        self.monoid = scan_monoid(statement.kind, statement.value.dtype)
        self.is_arg = statement.kind.startswith("arg")
        self.names = tuple(context.fresh("acc") for _ in self.monoid.identity)
        dtypes = self.monoid.dtypes
        self.now = tuple(s.param(n, d) for n, d in zip(self.names, dtypes, strict=True))

    def rows(self) -> c.Block:
        """One thread per row."""
        over = self.statement.over
        return self.context.spread(
            self.statement.axes,
            lambda: (
                self._start(self.monoid.identity),
                c.For(over.var, 0, over.extent, 1, (self._step(), self._store())),
            ),
        )

    def blocks(self) -> c.Block:
        context, over = self.context, self.statement.over
        row = context.axis("row", product(axis.extent for axis in self.statement.axes))
        block = context.axis("block", ceildiv(over.extent, BLOCK))
        totals = [context.array("totals", d, row.extent * block.extent) for d in self.monoid.dtypes]
        start, stop = block.var * BLOCK, minimum(block.var * BLOCK + BLOCK, over.extent)
        place = row.var * block.extent + block.var
        binds = bound(self.statement.axes, row.var)

        def total_at(at: Index) -> Parts:
            return tuple(s.load(array, base + at) for array, base in totals)

        def keep(values: Parts) -> c.Puts:
            pairs = zip(totals, values, strict=True)
            return c.Puts(tuple(c.Put(array, base + place, v) for (array, base), v in pairs))

        def fold() -> Sequence[c.Code]:
            turns = c.For(over.var, start, stop, 1, (self._step(),))
            return (*binds, self._start(self.monoid.identity), turns, keep(self.now))

        def before() -> Sequence[c.Code]:
            """The result of each block becomes the fold of all before it."""
            found = tuple((context.fresh("own"), value) for value in total_at(place))
            own = tuple(s.param(name, value.dtype) for name, value in found)
            joined = self.monoid.combine(self.now, own)
            turn = (c.Let(found), keep(self.now), self._set(joined))
            loop = c.For(block.var, 0, block.extent, 1, turn)
            return (self._start(self.monoid.identity), loop)

        def again() -> Sequence[c.Code]:
            turns = c.For(over.var, start, stop, 1, (self._step(), self._store()))
            return (*binds, self._start(total_at(place)), turns)

        return (
            *context.spread((row, block), fold),
            *context.barrier(),
            *context.spread((row,), before),
            *context.barrier(),
            *context.spread((row, block), again),
        )

    def _start(self, values: Parts) -> c.Let:
        return c.Let(tuple(zip(self.names, values, strict=True)), True)

    def _set(self, values: Parts) -> c.Set:
        return c.Set(tuple(zip(self.names, values, strict=True)))

    def _step(self) -> c.Set:
        value = self.context.expr(self.statement.value)
        position: Var = self.statement.over.var
        element = (value, s.index(position)) if self.is_arg else (value,)
        return self._set(self.monoid.combine(self.now, element))

    def _store(self) -> c.Put:
        return self.context.put(self.statement.dest, self.statement.at, self.now[-1])
