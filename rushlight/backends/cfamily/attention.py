"""AttentionGrid: sums over pairs of queries and keys, with or without a softmax, see [attention].

A kernel per side that has results. An instance is ROWS owners of one batch element (queries for
sums over keys, keys for sums over queries); it goes over tiles of KEY_BLOCK others, the inner ones.
Scores of a tile, then probabilities or weights, are tiles [row][j]; each step is spread over the
threads of a group:

    for tile of inner rows:
        x[row][j] = score or weights of the products;   barrier
        softmax: new top, shrink, ref of row;           barrier
                 x[row][j] = exp(x - ref);              barrier
        sums[row][n] += x[row][j] * other(j, n);        barrier
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import (
    Context,
    Index,
    Machine,
    Place,
    bound,
    get_at,
    put_at,
)
from rushlight.base.dtypes import int64
from rushlight.compiler.tile import ir
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import ceildiv, maximum, minimum, product

ROWS = 32
THREADS = 128


def lower_attention(
    grid: ir.AttentionGrid, machine: Machine, name: str
) -> tuple[list[c.Kernel], list[c.Array]]:
    kernels, scratch = [], []
    for side, own in sides_of(grid):
        context = Context(machine, f"{name}_{side}", min(THREADS, machine.threads))
        kernels.append(Attention(grid, side, own, context).kernel())
        scratch += context.scratch
    if grid.bins:
        context = Context(machine, f"{name}_ls", min(THREADS, machine.threads))
        kernels.append(_Bins(grid, context).kernel())
        scratch += context.scratch
    return kernels, scratch


def sides_of(grid: ir.AttentionGrid) -> list[tuple[str, list[ir.PairSum]]]:
    """The sides that have results, each with its sums: "l", the queries own, and "s", the keys."""
    found = []
    for side in ("l", "s"):
        own = [x for x in grid.sums if x.over != side]
        if own or (side == "l" and grid.softmax is not None):
            found.append((side, own))
    return found


class Attention:
    """One side: "l", the queries own; "s", the keys do."""

    rows = ROWS

    def __init__(
        self, grid: ir.AttentionGrid, side: str, sums: Sequence[ir.PairSum | ir.PairBins],
        context: Context,
    ) -> None:  # fmt: skip
        self.grid, self.side, self.context = grid, side, context
        self.sums = [x for x in sums if isinstance(x, ir.PairSum)]
        self.dtype, self.softmax = grid.acc_dtype, grid.softmax
        self.owner, self.inner = (grid.l, grid.s) if side == "l" else (grid.s, grid.l)
        self.runs = grid.runs_l if side == "l" else grid.runs_s
        self.weights = [] if self.softmax else list(dict.fromkeys(x.weight for x in sums))
        tiles = max(1, len(self.weights))
        self.x = [context.array("x", self.dtype, self.rows * ir.KEY_BLOCK) for _ in range(tiles)]
        self.top, self.total, self.shrink, self.ref = (
            context.array(name, self.dtype, self.rows) for name in ("top", "total", "shrink", "ref")
        )
        self.totals = [context.array("sums", self.dtype, self.rows * _width(x)) for x in self.sums]
        self.blocks = ir.Axis("owner_block", ceildiv(self.owner.extent, self.rows))
        self.start: Index = self.blocks.var * self.rows
        self.row = ir.Axis("owner_row", minimum(self.rows, self.owner.extent - self.start))
        self.tile, self.count = (
            Var("tile_start", 0, None, "axis"),
            Var("tile_count", 0, None, "axis"),
        )
        self.other = ir.Axis("tile_j", self.count)

    def kernel(self) -> c.Kernel:
        context, lead = self.context, (*self.grid.batch, self.blocks)
        instance = Var("instance_id", 0, None, "axis")
        count = minimum(ir.KEY_BLOCK, self.inner.extent - self.tile)
        turn: c.Block = (c.Bind(self.count, count), *self._scores(), *context.barrier())
        if self.softmax is not None:
            turn += (*self._tops(), *context.barrier(), *self._probabilities())
            turn += (*context.barrier(), *self._total())
        for number in range(len(self.sums)):
            turn += self._sum(number)
        turn += context.barrier()
        body = (
            *bound(lead, instance), *self._clear(), *context.barrier(),
            *self.tiles(turn), *self._outputs(),
        )  # fmt: skip
        return context.kernel(body, product(axis.extent for axis in lead), instance)

    def tiles(self, turn: c.Block) -> c.Block:
        """The loop over tiles, of the runs if there are any."""
        low, high, runs = 0, self.inner.extent, self.runs
        if self.grid.causal and self.side == "l":
            high = minimum(high, self.start + self.rows)
        elif self.grid.causal:
            low = (self.start // ir.KEY_BLOCK) * ir.KEY_BLOCK
        if runs is None:
            return (c.For(self.tile, low, high, ir.KEY_BLOCK, turn),)
        first, stop = (Var(name, 0, None, "axis") for name in ("run_low", "run_high"))
        begin, end = (s.as_index(self.context.expr(e)) for e in (runs.begin, runs.end))
        span = [s.as_index(self.context.expr(e)) * runs.tile for e in (runs.first, runs.stop)]
        inside = (
            c.Bind(first, maximum(low, span[0])),
            c.Bind(stop, minimum(high, span[1])),
            c.For(self.tile, first, stop, ir.KEY_BLOCK, turn),
        )
        return (
            c.Bind(runs.row.var, self.start // runs.rows),
            c.For(runs.run.var, begin, end, 1, inside),
        )

    def _clear(self) -> c.Block:
        row = self.row.var
        block = self._per_row(
            put_at(self.top, row, s.const(float("-inf"), self.dtype)),
            put_at(self.total, row, self._zero()),
        )
        for item, place in zip(self.sums, self.totals, strict=True):
            n = _features(item)
            put = put_at(place, row * n.extent + n.var, self._zero())
            block += self.context.spread((self.row, n), lambda put=put: (put,))
        return block

    # one tile -----------------------------------------------------------------------------------

    def _scores(self) -> c.Block:
        """Scores, or weights; -inf, or 0, where a pair is not kept."""
        wanted = self.weights if self.softmax is None else [self.softmax.score]
        outside = s.const(0.0 if self.softmax is None else float("-inf"), self.dtype)
        kept = self.kept()

        def body() -> Sequence[c.Code]:
            accs = tuple(f"acc_{n}" for n in range(len(self.grid.products)))
            found: c.Block = (c.Let(tuple((name, self._zero()) for name in accs), True),)
            for name, one in zip(accs, self.grid.products, strict=True):
                found += (self._chain(name, one),)
            puts = c.Puts(
                tuple(
                    put_at(place, self._cell(), self._with_accs(value))
                    for place, value in zip(self.x, wanted, strict=True)
                )
            )
            if kept is None:
                return (*self._bind_row(), *self._bind_other(), *found, puts)
            empty = tuple(put_at(place, self._cell(), outside) for place in self.x)
            return (
                *self._bind_row(), *self._bind_other(), c.Puts(empty),
                c.If(self.context.expr(kept), (*found, puts)),
            )  # fmt: skip

        return self.context.spread((self.row, self.other), body) if wanted else ()

    def _chain(self, name: str, one: ir.Product) -> c.For:
        a, b = (self.context.expr(s.cast(operand, self.dtype)) for operand in (one.a, one.b))
        add = c.Set(((name, s.fma(a, b, s.param(name, self.dtype))),))
        return c.For(one.k.var, 0, one.k.extent, 1, (add,))

    def kept(self) -> E | None:
        """Which pairs count; None: all."""
        kept = self.grid.keep
        if self.grid.causal:
            causal = s.le(s.index(self.grid.s.var), s.index(self.grid.l.var))
            kept = causal if kept is None else causal & kept
        return kept

    def _with_accs(self, value: E) -> E:
        accs = [s.param(f"acc_{n}", self.dtype) for n in range(len(self.grid.products))]
        return self.context.expr(value, *accs)

    def _tops(self) -> c.Block:
        """The largest score yet, NaN left out; what older sums shrink by."""
        row, infinity = self.row.var, s.const(float("-inf"), self.dtype)
        new, ref = s.param("new_top", self.dtype), s.param("ref_level", self.dtype)
        score = get_at(self.x[0], self._cell())
        larger = c.Set((("new_top", s.select(s.gt(score, new), score, new)),))
        return self._per_row(
            c.Let((("new_top", get_at(self.top, row)),), True),
            c.For(self.other.var, 0, self.count, 1, (larger,)),
            c.Let((("ref_level", s.select(s.eq(new, infinity), self._zero(), new)),)),
            put_at(self.shrink, row, self._exp(get_at(self.top, row) - ref)),
            put_at(self.ref, row, ref),
            put_at(self.top, row, new),
        )

    def _probabilities(self) -> c.Block:
        ref = get_at(self.ref, self.row.var)

        def body() -> Sequence[c.Code]:
            cell = self._cell()
            return (put_at(self.x[0], cell, self._exp(get_at(self.x[0], cell) - ref)),)

        return self.context.spread((self.row, self.other), body)

    def _total(self) -> c.Block:
        row, total = self.row.var, s.param("new_total", self.dtype)
        add = c.Set((("new_total", total + get_at(self.x[0], self._cell())),))
        start = get_at(self.total, row) * get_at(self.shrink, row)
        return self._per_row(
            c.Let((("new_total", start),), True),
            c.For(self.other.var, 0, self.count, 1, (add,)),
            put_at(self.total, row, total),
        )

    def _sum(self, number: int) -> c.Block:
        """One chain goes on."""
        item, place, acc = self.sums[number], self.totals[number], s.param("sum_acc", self.dtype)
        n = _features(item)
        at = self.row.var * n.extent + n.var
        tile = self.x[0 if self.softmax else self.weights.index(item.weight)]
        weight, start = get_at(tile, self._cell()), get_at(place, at)
        if self.softmax is not None:
            start = start * get_at(self.shrink, self.row.var)
        one = acc + weight
        if item.other is not None:
            one = s.fma(weight, self.context.expr(s.cast(item.other, self.dtype)), acc)

        def body() -> Sequence[c.Code]:
            add = c.Set((("sum_acc", one),))
            return (
                c.Let((("sum_acc", start),), True),
                c.For(self.other.var, 0, self.count, 1, (*self._bind_other(), add)),
                put_at(place, at, acc),
            )

        return self.context.spread((self.row, n), body)

    # results ------------------------------------------------------------------------------------

    def _outputs(self) -> c.Block:
        row, block = self.row.var, ()
        share: E | None = None
        if self.softmax is not None:
            total, one = get_at(self.total, row), s.const(1, self.dtype)
            share = s.div(one, s.select(s.eq(total, self._zero()), one, total))
            lse = get_at(self.top, row) + self.context.expr(self.softmax.log, total)
            block += self._stored(self.softmax.lse_stores, (self.row,), lse)
            block += self._stored(self.softmax.top_stores, (self.row,), get_at(self.top, row))
        for item, place in zip(self.sums, self.totals, strict=True):
            n = _features(item)
            value = get_at(place, row * n.extent + n.var)
            value = value if share is None else value * share
            block += self._stored(item.stores, (self.row, n), value)
        return block

    def _stored(
        self, stores: tuple[ir.Store, ...], axes: tuple[ir.Axis, ...], value: E, of_row: bool = True
    ) -> c.Block:
        if not stores:
            return ()
        found = s.param("final_value", self.dtype)
        puts = tuple(self.context.put_of(store, found) for store in stores)
        row = self._bind_row() if of_row else ()
        body = (*row, c.Let((("final_value", value),)), c.Puts(puts))
        return self.context.spread(axes, lambda: body)

    # small parts --------------------------------------------------------------------------------

    def _per_row(self, *code: c.Code) -> c.Block:
        return self.context.spread((self.row,), lambda: code, independent=False)

    def _bind_row(self) -> c.Block:
        return (c.Bind(self.owner.var, self.start + self.row.var),)

    def _bind_other(self) -> c.Block:
        return (c.Bind(self.inner.var, self.tile + self.other.var),)

    def _cell(self) -> Index:
        return self.row.var * ir.KEY_BLOCK + self.other.var

    def _zero(self) -> E:
        return s.const(0, self.dtype)

    def _exp(self, value: E) -> E:
        assert self.softmax is not None
        return self.context.expr(self.softmax.exp, value)


class _Bins(Attention):
    """Sums into bins: an instance is all queries of a batch element, block after block. A thread
    has the bins of every so many and looks at all pairs of a tile for them, in their order."""

    rows = ir.KEY_BLOCK

    def __init__(self, grid: ir.AttentionGrid, context: Context) -> None:
        super().__init__(grid, "l", grid.bins, context)
        self.bins = [context.array("bins", self.dtype, item.n.extent) for item in grid.bins]

    def kernel(self) -> c.Kernel:
        context, instance = self.context, Var("instance_id", 0, None, "axis")
        items = list(zip(self.grid.bins, self.bins, strict=True))
        count = minimum(ir.KEY_BLOCK, self.inner.extent - self.tile)
        turn: c.Block = (c.Bind(self.count, count), *self._scores(), *context.barrier())
        body: c.Block = bound(self.grid.batch, instance)
        for item, place in items:
            turn += self._add(item, place)
            clear = put_at(place, item.n.var, self._zero())
            body += context.spread((item.n,), lambda clear=clear: (clear,))
        body += context.barrier()
        turn += context.barrier()
        body += (c.For(self.blocks.var, 0, self.blocks.extent, 1, self.tiles(turn)),)
        for item, place in items:
            body += self._stored(item.stores, (item.n,), get_at(place, item.n.var), of_row=False)
        return context.kernel(body, product(x.extent for x in self.grid.batch), instance)

    def _add(self, item: ir.PairBins, place: Place) -> c.Block:
        threads, bin_ = self.context.threads, s.param("pair_bin", int64)
        weight = get_at(self.x[self.weights.index(item.weight)], self._cell())
        at = s.as_index(bin_)
        mine = s.ge(bin_, s.const(0, int64)) & s.lt(bin_, s.index(item.n.extent))
        thread = ir.Axis("bin_thread", threads)
        if threads > 1:
            own = s.irem(bin_, s.const(threads, int64))
            mine = mine & s.eq(own, s.index(thread.var))
        add = c.If(mine, (put_at(place, at, get_at(place, at) + weight),))
        look = (
            *self._bind_other(), c.Let((("pair_bin", self.context.expr(item.bin)),)), add,
        )  # fmt: skip
        some = c.If(s.ne(weight, self._zero()), look)
        keys = c.For(self.other.var, 0, self.count, 1, (some,))
        queries = c.For(self.row.var, 0, self.row.extent, 1, (*self._bind_row(), keys))
        return self.context.spread((thread,), lambda: (queries,), independent=False)


def _features(item: ir.PairSum) -> ir.Axis:
    return ir.Axis("one_n", 1) if item.n is None else item.n


def _width(item: ir.PairSum) -> Index:
    return 1 if item.n is None else item.n.extent
