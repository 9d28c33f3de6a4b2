"""Scan: an inclusive left fold along an axis.

In a group of threads a long row is cut into blocks of BLOCK elements: a thread folds a block, one
thread folds the results of the blocks from left to right, then each block is folded again from what
stands before it. So a float sum over more than BLOCK elements is added in another order than the
left fold: it depends on the length alone, and all else (whole numbers, extremes) is exact.
A machine without groups folds from left to right. Where the order does not matter (whole numbers,
extremes) and threads exchange values, a subgroup takes a row, so neighbours read neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Context, Index, Machine, bound, get_at, put_at
from rushlight.backends.cfamily.monoid import Parts, scan_monoid
from rushlight.base.dtypes import int64
from rushlight.compiler.tile import ir
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Var, is_nonnegative
from rushlight.ir.symint_math import ceildiv, minimum, product

BLOCK = 256


def lower_scan(context: Context, statement: ir.Scan) -> c.Block:
    folding = Folding(context, statement)
    if in_subgroups(statement, context.machine):
        return _exchanged(folding)
    in_one = context.threads == 1 or is_nonnegative(BLOCK - statement.over.extent)
    return _rows(folding) if in_one else _blocks(folding)


def in_subgroups(statement: ir.Scan, machine: Machine) -> bool:
    """May neighbours share a row? Where any order of folding gives the same."""
    is_exact = statement.kind not in ("sum", "prod") or not statement.value.dtype.is_floating_point
    return is_exact and machine.threads > 1 and 1 < machine.subgroup <= ir.PARTIALS


def _exchanged(folding: Folding) -> c.Block:
    """A subgroup per row: so many elements at a time, one for each thread, are folded in steps of
    1, 2, 4 ... neighbours; the last one's result goes on to the next elements."""
    context, over, width = folding.context, folding.statement.over, folding.context.machine.subgroup
    lane, first = context.axis("lane", width), Var(context.fresh("first"), 0, None, "axis")
    inside = s.lt(s.index(over.var), s.index(over.extent))
    before = [context.fresh("before") for _ in folding.names]
    ahead = tuple(s.param(n, v.dtype) for n, v in zip(before, folding.now, strict=True))

    def moved(op: str, number: int) -> Parts:
        return tuple(s.make(op, (x,), x.dtype, number) for x in folding.now)

    steps: list[c.Code] = []
    for back in (1 << i for i in range(width.bit_length() - 1)):
        own = [context.fresh("up") for _ in before]
        up = tuple(s.param(n, v.dtype) for n, v in zip(own, folding.now, strict=True))
        has = s.ge(s.index(lane.var), s.const(back, int64))
        steps.append(c.Let(tuple(zip(own, moved("subgroup_up", back), strict=True))))
        joined = c.Set(
            tuple(zip(folding.names, folding.monoid.combine(up, folding.now), strict=True))
        )
        steps.append(c.If(has, (joined,)))
    turn = (
        c.Bind(over.var, first + lane.var),
        folding.start(folding.monoid.identity),
        c.If(inside, (folding.take(),)),
        *steps,
        folding.set(folding.monoid.combine(ahead, folding.now)),
        c.If(inside, (folding.store(),)),
        c.Set(tuple(zip(before, moved("subgroup_at", width - 1), strict=True))),
    )
    begin = c.Let(tuple(zip(before, folding.monoid.identity, strict=True)), True)
    loop = c.For(first, 0, over.extent, width, turn)
    return context.spread((*folding.statement.axes, lane), lambda: (begin, loop))


def _rows(folding: Folding) -> c.Block:
    """One thread per row."""
    statement = folding.statement
    turns = folding.turns(0, statement.over.extent, True)
    begin = folding.start(folding.monoid.identity)
    return folding.context.spread(statement.axes, lambda: (begin, turns))


def _blocks(folding: Folding) -> c.Block:
    context, statement = folding.context, folding.statement
    over, identity = statement.over, folding.monoid.identity
    row = context.axis("row", product(axis.extent for axis in statement.axes))
    block = context.axis("block", ceildiv(over.extent, BLOCK))
    totals = [context.array("totals", d, row.extent * block.extent) for d in folding.monoid.dtypes]
    limits = block.var * BLOCK, minimum(block.var * BLOCK + BLOCK, over.extent)
    place = row.var * block.extent + block.var
    binds = bound(statement.axes, row.var)
    found = tuple(get_at(total, place) for total in totals)

    def keep(values: Parts) -> list[c.Put]:
        return [put_at(total, place, v) for total, v in zip(totals, values, strict=True)]

    fold = (
        *binds, folding.start(identity), folding.turns(*limits, False),
        c.Puts(tuple(keep(folding.now))),
    )  # fmt: skip
    return (
        *context.spread((row, block), lambda: fold),
        *context.barrier(),
        *context.spread((row,), lambda: folding.exclusive(block, found, keep)),
        *context.barrier(),
        *context.spread(
            (row, block), lambda: (*binds, folding.start(found), folding.turns(*limits, True))
        ),
    )


class Folding:
    """The fold of one statement in variables of a thread: `now` is what has been folded."""

    def __init__(self, context: Context, statement: ir.Scan) -> None:
        self.context, self.statement = context, statement
        self.monoid = scan_monoid(statement.kind, statement.value.dtype)
        self.is_arg = statement.kind.startswith("arg")
        self.names = tuple(context.fresh("acc") for _ in self.monoid.identity)
        dtypes = self.monoid.dtypes
        self.now = tuple(s.param(n, d) for n, d in zip(self.names, dtypes, strict=True))

    def turns(self, start: Index, stop: Index, stores: bool) -> c.For:
        """Elements start <= i < stop are folded, and each result is stored."""
        body = (self._step(), self.store()) if stores else (self._step(),)
        return c.For(self.statement.over.var, start, stop, 1, body)

    def exclusive(
        self, axis: ir.Axis, found: Sequence[E], keep: Callable[[Parts], list[c.Put]]
    ) -> c.Block:
        """Each result along an axis becomes the fold of all before it; `now` is that of all."""
        named = tuple((self.context.fresh("own"), value) for value in found)
        own = tuple(s.param(name, value.dtype) for name, value in named)
        joined = self.set(self.monoid.combine(self.now, own))
        turn = (c.Let(named), c.Puts(tuple(keep(self.now))), joined)
        return (self.start(self.monoid.identity), c.For(axis.var, 0, axis.extent, 1, turn))

    def start(self, values: Parts) -> c.Let:
        return c.Let(tuple(zip(self.names, values, strict=True)), True)

    def set(self, values: Parts) -> c.Set:
        return c.Set(tuple(zip(self.names, values, strict=True)))

    def _element(self) -> Parts:
        value = self.context.expr(self.statement.value)
        position: Var = self.statement.over.var
        return (value, s.index(position)) if self.is_arg else (value,)

    def take(self) -> c.Set:
        """`now` becomes the element."""
        return self.set(self._element())

    def _step(self) -> c.Set:
        return self.set(self.monoid.combine(self.now, self._element()))

    def store(self) -> c.Put:
        return self.context.put(self.statement.dest, self.statement.at, self.now[-1])
