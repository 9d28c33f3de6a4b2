"""Scan of long rows, by many groups.

A row is cut into spans, a span into blocks; a group takes a span, a thread a block:

    a block of BLOCK elements      folded from left to right
    a span of BLOCKS blocks        their results folded from left to right
    the row                        the results of spans folded from left to right

and each block is folded again from (what stands before its span, what stands before it in the
span). This order depends on the length alone, so all ways to do it have the same bits:

* groups go on while others wait (`Machine.progress`): one pass. A group takes the next span by a
  ticket, so the spans before it are in work or done, and waits for the result of all before it.
  It never joins what it finds finished first: that order would be another each time.
* otherwise two passes, and a launch between them that folds the spans of each row.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.bounds import at_most
from rushlight.backends.cfamily.context import Context, Machine, bound, get_at, put_at
from rushlight.backends.cfamily.monoid import Parts
from rushlight.backends.cfamily.scan import BLOCK, Folding
from rushlight.base.dtypes import DType, int64, uint32
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.transform import tiles_of
from rushlight.ir import scalar as s
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_math import ceildiv, maximum, minimum, product
from rushlight.ir.symint_walk import variables

Index = int | Expr
Lowered = tuple[Sequence[c.Kernel], Sequence[c.Array]]
BLOCKS = 64
SPAN = BLOCKS * BLOCK
ROOM = 16 * (BLOCKS + 2)  # shared bytes of one pass


def has_long_rows(grid: ir.Grid, machine: Machine) -> bool:
    """May a row be longer than a span? Then this grid is lowered here."""
    if machine.threads == 1 or len(grid.body) != 1 or tiles_of(grid):
        return False
    (statement,) = grid.body
    if not isinstance(statement, ir.Scan):
        return False
    extents = [axis.extent for axis in (*grid.axes, *statement.axes, statement.over)]
    if any(v.kind == "axis" for extent in extents for v in variables(extent).values()):
        return False
    longest = at_most(statement.over.extent)
    return not (isinstance(longest, int) and longest <= SPAN)


def lower_long_scan(grid: ir.Grid, machine: Machine, name: str, short: Lowered) -> Lowered:
    """`short`: the kernels for rows of one span, which run where the length says so."""
    (statement,) = grid.body
    assert isinstance(statement, ir.Scan)
    length = statement.over.extent
    scan = _LongScan(grid, statement, machine, name)
    if isinstance(length, int):
        return scan.kernels(), scan.scratch
    # An expression that is all groups where the length is over a span, else none; and its opposite.
    over, within = maximum(0, length - SPAN), maximum(0, SPAN + 1 - length)
    kernels = [_limited(k, within) for k in short[0]]
    kernels += [_limited(k, over) for k in scan.kernels()]
    return kernels, [*short[1], *scan.scratch]


def _limited(kernel: c.Kernel, times: Index) -> c.Kernel:
    """A kernel of no groups where `times` is 0."""
    groups = minimum(kernel.groups, kernel.groups * times)
    return c.Kernel(kernel.name, groups, kernel.threads, kernel.arrays, kernel.body)


class _LongScan:
    def __init__(self, grid: ir.Grid, statement: ir.Scan, machine: Machine, name: str) -> None:
        self.statement, self.machine, self.name = statement, machine, name
        self.axes = (*grid.axes, *statement.axes)
        self.rows = product(axis.extent for axis in self.axes)
        self.spans = ceildiv(statement.over.extent, SPAN)
        self.row, self.span = ir.Axis("row_id", self.rows), ir.Axis("span_id", self.spans)
        self.scratch: list[c.Array] = []

    def kernels(self) -> list[c.Kernel]:
        has_room = self.machine.shared_bytes >= ROOM
        return self._one_pass() if self.machine.progress and has_room else self._two_passes()

    # pieces -------------------------------------------------------------------------------------

    def _folding(self, suffix: str) -> Folding:
        threads = min(self.machine.threads, BLOCKS)
        context = Context(self.machine, f"{self.name}_{suffix}", threads)
        return Folding(context, self.statement)

    def _array(self, stem: str, dtype: DType, size: Index) -> c.Array:
        found = c.Array(f"{self.name}_{stem}", dtype, size, "scratch")
        self.scratch.append(found)
        return found

    def _arrays(self, stem: str, folding: Folding, size: Index) -> list[c.Array]:
        dtypes = folding.monoid.dtypes
        return [self._array(f"{stem}_{i}", dtype, size) for i, dtype in enumerate(dtypes)]

    def _place(self) -> Index:
        return self.row.var * self.spans + self.span.var

    def _fold_blocks(self, folding: Folding, block: ir.Axis, totals: list) -> c.Block:
        """totals[block] = the block's result, by a thread for each."""

        def fold() -> Sequence[c.Code]:
            keep = [put_at(t, block.var, v) for t, v in zip(totals, folding.now, strict=True)]
            turns = folding.turns(*self._limits(block), False)
            return (folding.start(folding.monoid.identity), turns, c.Puts(tuple(keep)))

        return folding.context.spread((block,), fold)

    def _limits(self, block: ir.Axis) -> tuple[Index, Index]:
        start = self.span.var * SPAN + block.var * BLOCK
        return start, minimum(start + BLOCK, self.statement.over.extent)

    def _before_blocks(self, folding: Folding, totals: list) -> c.Block:
        """totals[block] = what stands before the block in its span; the span's result stays."""
        block = folding.context.axis("block", BLOCKS)
        return folding.exclusive(block, [get_at(t, block.var) for t in totals], lambda values: [
            put_at(t, block.var, v) for t, v in zip(totals, values, strict=True)
        ])  # fmt: skip

    def _again(self, folding: Folding, block: ir.Axis, ahead: Parts, inside: Parts) -> c.Block:
        """Each block once more, from what stands before it."""
        first = s.eq(s.index(block.var), s.const(0, int64))
        joined = folding.monoid.combine(ahead, inside)
        begin = tuple(s.select(first, a, b) for a, b in zip(ahead, joined, strict=True))
        turns = folding.turns(*self._limits(block), True)
        return folding.context.spread((block,), lambda: (folding.start(begin), turns))

    def _alone(self, folding: Folding, body: Sequence[c.Code]) -> c.Block:
        return folding.context.spread((), lambda: body)

    # two passes ---------------------------------------------------------------------------------

    def _two_passes(self) -> list[c.Kernel]:
        fold, chain, again = (self._folding(suffix) for suffix in ("fold", "chain", "again"))
        instance, instances = Var("instance_id", 0, None, "axis"), self.rows * self.spans
        results = self._arrays("spans", fold, instances)
        befores = self._arrays("blocks", fold, instances * BLOCKS)
        binds = (*bound((self.row, self.span), instance), *bound(self.axes, self.row.var))
        block = ir.Axis("block_id", BLOCKS)
        own = [(array, self._place() * BLOCKS) for array in befores]
        keep = tuple(
            c.Put(array, self._place(), v) for array, v in zip(results, fold.now, strict=True)
        )
        body = (
            *binds, *self._fold_blocks(fold, block, own), c.Barrier(),
            *self._alone(fold, (*self._before_blocks(fold, own), c.Puts(keep))),
        )  # fmt: skip
        first = fold.context.kernel(body, instances, instance)
        ahead = tuple(s.load(array, self._place()) for array in results)
        inside = tuple(get_at(place, block.var) for place in own)
        last = again.context.kernel(
            (*binds, *self._again(again, block, ahead, inside)), instances, instance
        )
        return [first, self._chain(chain, results), last]

    def _chain(self, folding: Folding, results: list[c.Array]) -> c.Kernel:
        """The result of each span becomes the fold of all before it in its row."""
        place = self._place()
        values = [s.load(array, place) for array in results]
        code = folding.exclusive(self.span, values, lambda new: [
            c.Put(array, place, v) for array, v in zip(results, new, strict=True)
        ])  # fmt: skip
        return folding.context.flat_kernel(
            self.rows, lambda item: (c.Bind(self.row.var, item), *code)
        )

    # one pass -----------------------------------------------------------------------------------

    def _one_pass(self) -> list[c.Kernel]:
        """Flags and results are read by the groups that come after: flags[0] counts tickets,
        flags[1 + i] says that the result of span i and all before it is there."""
        folding = self._folding("pass")
        context, instances = folding.context, self.rows * self.spans
        flags = self._array("flags", uint32, instances + 1)
        results = self._arrays("spans", folding, instances)
        instance = Var("instance_id", 0, None, "axis")
        block = ir.Axis("block_id", BLOCKS)
        totals = [context.array("totals", d, BLOCKS) for d in folding.monoid.dtypes]
        ahead = [context.array("ahead", d, 1) for d in folding.monoid.dtypes]
        ticket, number = context.array("ticket", self.machine.index, 1), Var("ticket_id")
        take = (c.Sync("ticket", flags, 0, number), put_at(ticket, 0, context.whole(number)))
        before_span = tuple(get_at(place, 0) for place in ahead)
        inside = tuple(get_at(place, block.var) for place in totals)
        body = (
            *self._alone(folding, take),
            c.Barrier(),
            c.Bind(instance, s.as_index(get_at(ticket, 0))),
            *bound((self.row, self.span), instance),
            *bound(self.axes, self.row.var),
            *self._fold_blocks(folding, block, totals),
            c.Barrier(),
            *self._alone(folding, self._join_chain(folding, totals, ahead, flags, results)),
            c.Barrier(),
            *self._again(folding, block, before_span, inside),
        )
        arrays = tuple(context.arrays)
        kernel = c.Kernel(context.stem, instances, context.threads, arrays, body)
        return [self._reset(flags), kernel]

    def _join_chain(
        self, folding: Folding, totals: list, ahead: list, flags: c.Array, results: list[c.Array]
    ) -> c.Block:
        """One thread: the span's own result, then that of all before it, then both are told."""
        place = self._place()
        names = [folding.context.fresh("before") for _ in ahead]
        before = tuple(s.param(n, d) for n, d in zip(names, folding.monoid.dtypes, strict=True))
        waited = (
            c.Sync("wait", flags, place),
            c.Set(tuple((n, s.load(a, place - 1)) for n, a in zip(names, results, strict=True))),
        )
        joined = folding.monoid.combine(before, folding.now)
        stores = [c.Put(a, place, v) for a, v in zip(results, joined, strict=True)]
        stores += [put_at(a, 0, v) for a, v in zip(ahead, before, strict=True)]
        return (
            *self._before_blocks(folding, totals),
            c.Let(tuple(zip(names, folding.monoid.identity, strict=True)), True),
            c.If(s.gt(s.index(self.span.var), s.const(0, int64)), waited),
            c.Puts(tuple(stores)),
            c.Sync("signal", flags, place + 1),
        )

    def _reset(self, flags: c.Array) -> c.Kernel:
        context = Context(self.machine, f"{self.name}_reset", self.machine.threads)
        zero = s.const(0, uint32)
        assert isinstance(flags.size, int | Expr)
        return context.flat_kernel(flags.size, lambda item: (c.Put(flags, item, zero),))
