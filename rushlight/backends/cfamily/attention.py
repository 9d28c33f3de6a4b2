"""AttentionGrid: softmax(score(q k^T)) v over blocks of keys, see [attention] in tile/ir.

An instance is one group of queries of one batch element. Scores of a block, then its probabilities,
are a tile of the group; each step is spread over the threads:

    for block of keys:
        x[l][s] = score(q . k);        barrier
        new top, shrink, ref of l;     barrier
        x[l][s] = exp(x - ref);        barrier
        total[l], sums[l][ev];         barrier
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Context, Index, Machine, bound
from rushlight.compiler.tile import ir
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, Var, ceildiv, maximum, minimum, product
from rushlight.ir.symint_walk import substitute

Place = tuple[c.Array, Index]
THREADS = 128


def lower_attention(
    grid: ir.AttentionGrid, machine: Machine, name: str
) -> tuple[list[c.Kernel], list[c.Array]]:
    context = Context(machine, name, min(THREADS, machine.threads))
    return [_Attention(grid, context).kernel()], context.scratch


class _Attention:
    def __init__(self, grid: ir.AttentionGrid, context: Context) -> None:
        self.grid, self.context, self.dtype = grid, context, grid.acc_dtype
        rows = ir.QUERY_GROUP
        self.x = context.array("x", self.dtype, rows * ir.KEY_BLOCK)
        self.top, self.total, self.shrink, self.ref = (
            context.array(name, self.dtype, rows) for name in ("top", "total", "shrink", "ref")
        )
        self.sums = context.array("sums", self.dtype, rows * grid.ev.extent)
        self.queries = ir.Axis("query_group", ceildiv(grid.l.extent, rows))
        self.start: Index = self.queries.var * rows
        self.row = ir.Axis("query_row", minimum(rows, grid.l.extent - self.start))
        self.low, self.high = Var("key_start", 0, None, "axis"), Var("key_stop", None, None, "axis")
        self.first, self.count = (
            Var("first_key", 0, None, "axis"),
            Var("key_count", 0, None, "axis"),
        )
        self.key = ir.Axis("key_j", self.count)

    def kernel(self) -> c.Kernel:
        context, lead = self.context, (*self.grid.batch, self.queries)
        instance = Var("instance_id", 0, None, "axis")
        block = Var("key_block", 0, None, "axis")
        turn = (
            c.Bind(self.first, maximum(block, self.low)),
            c.Bind(self.count, minimum(block + ir.KEY_BLOCK, self.high) - self.first),
            *self._scores(), *context.barrier(),
            *self._tops(), *context.barrier(),
            *self._probabilities(), *context.barrier(),
            *self._totals(), *self._sums(), *context.barrier(),
        )  # fmt: skip
        begin = (self.low // ir.KEY_BLOCK) * ir.KEY_BLOCK
        body = (
            *bound(lead, instance), *self._range(), *self._clear(), *context.barrier(),
            c.For(block, begin, self.high, ir.KEY_BLOCK, turn),
            *self._outputs(),
        )  # fmt: skip
        return context.kernel(body, product(axis.extent for axis in lead), instance)

    def _range(self) -> c.Block:
        """The keys that the group sees."""
        grid = self.grid
        last = minimum(self.start + ir.QUERY_GROUP, grid.l.extent) - 1
        low, high = _at(grid.first, grid.l, self.start), _at(grid.stop, grid.l, last)
        return (
            c.Bind(self.low, maximum(0, self.context.index(low))),
            c.Bind(self.high, minimum(grid.s.extent, self.context.index(high))),
        )

    def _clear(self) -> c.Block:
        row, ev = self.row.var, self.grid.ev
        return (
            *self._per_query(
                _put(self.top, row, s.const(float("-inf"), self.dtype)),
                _put(self.total, row, self._zero()),
            ),
            *self.context.spread(
                (self.row, ev), lambda: (_put(self.sums, self._out(), self._zero()),)
            ),
        )

    # one block of keys --------------------------------------------------------------------------

    def _scores(self) -> c.Block:
        grid, expr = self.grid, self.context.expr
        acc = s.param("the_acc", self.dtype)
        q, k = (expr(s.cast(operand, self.dtype)) for operand in (grid.q, grid.k))
        chain = c.For(grid.e.var, 0, grid.e.extent, 1, (c.Set((("the_acc", s.fma(q, k, acc)),)),))

        def body() -> Sequence[c.Code]:
            return (
                *self._bind_query(), *self._bind_key(),
                c.Let((("the_acc", self._zero()),), True), chain,
                _put(self.x, self._cell(), expr(grid.score, acc)),
            )  # fmt: skip

        return self.context.spread((self.row, self.key), body)

    def _tops(self) -> c.Block:
        """The largest score yet, NaN left out; what older sums shrink by."""
        row, infinity = self.row.var, s.const(float("-inf"), self.dtype)
        new, ref = s.param("new_top", self.dtype), s.param("ref_level", self.dtype)
        score = _get(self.x, self._cell())
        larger = c.Set((("new_top", s.select(s.gt(score, new), score, new)),))
        return self._per_query(
            c.Let((("new_top", _get(self.top, row)),), True),
            c.For(self.key.var, 0, self.count, 1, (larger,)),
            c.Let((("ref_level", s.select(s.eq(new, infinity), self._zero(), new)),)),
            _put(self.shrink, row, self._exp(_get(self.top, row) - ref)),
            _put(self.ref, row, ref),
            _put(self.top, row, new),
        )

    def _probabilities(self) -> c.Block:
        ref = _get(self.ref, self.row.var)

        def body() -> Sequence[c.Code]:
            cell = self._cell()
            return (_put(self.x, cell, self._exp(_get(self.x, cell) - ref)),)

        return self.context.spread((self.row, self.key), body)

    def _totals(self) -> c.Block:
        row, total = self.row.var, s.param("new_total", self.dtype)
        add = c.Set((("new_total", total + _get(self.x, self._cell())),))
        start = _get(self.total, row) * _get(self.shrink, row)
        return self._per_query(
            c.Let((("new_total", start),), True),
            c.For(self.key.var, 0, self.count, 1, (add,)),
            _put(self.total, row, total),
        )

    def _sums(self) -> c.Block:
        grid, acc = self.grid, s.param("the_acc", self.dtype)
        v = self.context.expr(s.cast(grid.v, self.dtype))
        add = c.Set((("the_acc", s.fma(_get(self.x, self._cell()), v, acc)),))
        start = _get(self.sums, self._out()) * _get(self.shrink, self.row.var)

        def body() -> Sequence[c.Code]:
            return (
                c.Let((("the_acc", start),), True),
                c.For(self.key.var, 0, self.count, 1, (*self._bind_key(), add)),
                _put(self.sums, self._out(), acc),
            )

        return self.context.spread((self.row, grid.ev), body)

    # results ------------------------------------------------------------------------------------

    def _outputs(self) -> c.Block:
        grid, row, one = self.grid, self.row.var, s.const(1, self.dtype)
        total, found = _get(self.total, row), s.param("final_value", self.dtype)
        share = s.div(one, s.select(s.eq(total, self._zero()), one, total))
        out = _get(self.sums, self._out()) * share
        lse = _get(self.top, row) + self.context.expr(grid.log, total)
        block: c.Block = ()
        for stores, axes, value in (
            (grid.stores, (self.row, grid.ev), out),
            (grid.lse_stores, (self.row,), lse),
        ):
            if stores:
                puts = c.Puts(tuple(self.context.put_of(store, found) for store in stores))
                body = (*self._bind_query(), c.Let((("final_value", value),)), puts)
                block += self.context.spread(axes, lambda body=body: body)
        return block

    # small parts --------------------------------------------------------------------------------

    def _per_query(self, *code: c.Code) -> c.Block:
        return self.context.spread((self.row,), lambda: code, independent=False)

    def _bind_query(self) -> c.Block:
        return (c.Bind(self.grid.l.var, self.start + self.row.var),)

    def _bind_key(self) -> c.Block:
        return (c.Bind(self.grid.s.var, self.first + self.key.var),)

    def _cell(self) -> Index:
        return self.row.var * ir.KEY_BLOCK + self.key.var

    def _out(self) -> Index:
        return self.row.var * self.grid.ev.extent + self.grid.ev.var

    def _zero(self) -> E:
        return s.const(0, self.dtype)

    def _exp(self, value: E) -> E:
        return self.context.expr(self.grid.exp, value)


def _put(place: Place, at: Index, value: E) -> c.Put:
    return c.Put(place[0], place[1] + at, value)


def _get(place: Place, at: Index) -> E:
    return s.load(place[0], place[1] + at)


def _at(value: Index, axis: ir.Axis, here: Index) -> Index:
    return substitute(value, {axis.name: here}) if isinstance(value, Expr) else value
