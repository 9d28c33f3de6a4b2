"""Stable sort of rows by merging: runs of RUN keys by insertion, then passes that double the runs.

In: a grid whose only statement is a Sort (or a key per update, for scatter). Out: kernels. Keys and
positions lie in scratch, twice: a pass reads one half and writes the other. In a pass each piece of
PIECE outputs is one thread's work: it finds by bisection how many of the outputs before it come
from the left run (merge path), so one long row keeps all groups busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Context, Index, Machine, Refused, bound
from rushlight.base.dtypes import DType, int64
from rushlight.compiler.tile import ir
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import ceildiv, maximum, minimum, product

RUN = 16
PIECE = 2 * RUN  # divides every pair of runs


@dataclass(frozen=True)
class Keys:
    """The rows that are sorted: `length` keys each, at `over`, for every point of `axes`."""

    axes: tuple[ir.Axis, ...]
    over: ir.Axis
    key: E
    descending: bool

    @property
    def rows(self) -> Index:
        return product(axis.extent for axis in self.axes)

    @property
    def size(self) -> Index:
        return self.rows * self.over.extent


def lower_sort(grid: ir.Grid, machine: Machine, name: str) -> tuple[list[c.Kernel], list[c.Array]]:
    if len(grid.body) != 1:
        raise Refused("a sort beside other statements")
    (statement,) = grid.body
    assert isinstance(statement, ir.Sort)
    keys = Keys(grid.axes, statement.over, statement.key, statement.descending)
    sorter = Sorter(keys, machine, name)
    kernels = [*sorter.kernels(), sorter.write(statement)]
    return kernels, [sorter.keys_at, sorter.places_at]


class Sorter:
    def __init__(self, keys: Keys, machine: Machine, name: str) -> None:
        self.keys, self.machine, self.name = keys, machine, name
        self.dtype: DType = keys.key.dtype
        self.keys_at = c.Array(f"{name}_keys", self.dtype, 2 * keys.size, "scratch")
        self.places_at = c.Array(f"{name}_places", machine.index, 2 * keys.size, "scratch")
        self.length = keys.over.extent

    def kernels(self) -> list[c.Kernel]:
        """Those that sort; the result lies in half TURNS % 2."""
        return [self._runs(), self._merge()]

    def passes(self, each: bool) -> c.Passes:
        return c.Passes(RUN, self.length, each)

    def context(self, suffix: str) -> Context:
        return Context(self.machine, f"{self.name}_{suffix}", self.machine.threads)

    def sorted_half(self) -> Index:
        return (c.TURNS % 2) * self.keys.size

    # kernels ------------------------------------------------------------------------------------

    def _runs(self) -> c.Kernel:
        """Keys and positions, sorted in runs, into the first half."""
        context, keys = self.context("runs"), self.keys
        runs = ceildiv(self.length, RUN)
        row, run = ir.Axis("row_id", keys.rows), ir.Axis("run_id", runs)
        base, at = row.var * self.length, context.counter("at_place")
        key = s.param("new_key", self.dtype)
        place = base + s.as_index(at)
        more = s.gt(at, context.whole(run.var * RUN))
        left = s.load(self.keys_at, place - 1, more, key)
        shift = c.Puts(
            (
                c.Put(self.keys_at, place, s.load(self.keys_at, place - 1)),
                c.Put(self.places_at, place, s.load(self.places_at, place - 1)),
            )
        )
        insert = (
            c.Let((("new_key", context.expr(keys.key)),)),
            c.Let((("at_place", context.whole(keys.over.var)),), True),
            c.While(more & self.before(key, left), (shift, c.Set((("at_place", at - 1),)))),
            c.Puts(
                (
                    c.Put(self.keys_at, place, key),
                    c.Put(self.places_at, place, context.whole(keys.over.var)),
                )
            ),
        )
        stop = minimum(self.length, run.var * RUN + RUN)
        loop = c.For(keys.over.var, run.var * RUN, stop, 1, insert)

        def body(item: Var) -> Sequence[c.Code]:
            return (*bound((row, run), item), *bound(keys.axes, row.var), loop)

        return context.flat_kernel(keys.rows * runs, body)

    def _merge(self) -> c.Kernel:
        """One pass: pairs of runs of WIDTH keys become runs of twice as many."""
        context = self.context("merge")
        pieces = ceildiv(self.length, PIECE)
        row, piece = ir.Axis("row_id", self.keys.rows), ir.Axis("piece_id", pieces)
        first = Var("first_out", 0, None, "axis")
        pair, middle, end = (
            Var(n, 0, None, "axis") for n in ("pair_start", "pair_middle", "pair_end")
        )
        source, goal = Var("source_at", 0, None, "axis"), Var("goal_at", 0, None, "axis")
        base = row.var * self.length
        binds = (
            c.Bind(first, piece.var * PIECE),
            c.Bind(source, base + (c.TURN % 2) * self.keys.size),
            c.Bind(goal, base + ((c.TURN + 1) % 2) * self.keys.size),
            c.Bind(pair, (first // (2 * c.WIDTH)) * (2 * c.WIDTH)),
            c.Bind(middle, minimum(pair + c.WIDTH, self.length)),
            c.Bind(end, minimum(pair + 2 * c.WIDTH, self.length)),
        )
        taken = context.counter("taken_left")
        search = self._search(context, taken, source, first - pair, pair, middle, end)
        merge = self._merge_piece(context, taken, source, goal, first, pair, middle, end)

        def body(item: Var) -> Sequence[c.Code]:
            return (*bound((row, piece), item), *binds, *search, *merge)

        return context.flat_kernel(self.keys.rows * pieces, body, self.passes(True))

    def _search(
        self, context: Context, low: E, source: Var, done: Index, pair: Var, middle: Var, end: Var
    ) -> c.Block:
        """`low` becomes how many of the first `done` outputs come from the left run."""
        high, guess = context.counter("left_high"), context.counter("left_guess")
        left = s.load(self.keys_at, source + pair + s.as_index(guess))
        right = s.load(self.keys_at, source + middle + done - 1 - s.as_index(guess))
        is_out = self.before(right, left)
        return (
            c.Let(
                (
                    ("taken_left", context.whole(maximum(0, done - (end - middle)))),
                    ("left_high", context.whole(minimum(done, middle - pair))),
                ),
                True,
            ),
            c.While(
                s.lt(low, high),
                (
                    c.Let((("left_guess", s.idiv(low + high, 2)),)),
                    c.Let((("is_out", is_out),)),
                    c.Set(
                        (
                            ("left_high", s.select(_OUT, guess, high)),
                            ("taken_left", s.select(_OUT, low, guess + 1)),
                        )
                    ),
                ),
            ),
        )

    def _merge_piece(
        self, context: Context, taken: E, source: Var, goal: Var, first: Var, pair: Var,
        middle: Var, end: Var,
    ) -> c.Block:  # fmt: skip
        left, right = context.counter("left_at"), context.counter("right_at")
        out = Var("out_at", 0, None, "axis")
        has_left = s.lt(left, context.whole(middle))
        has_right = s.lt(right, context.whole(end))
        zero = s.const(0, self.dtype)
        at_left, at_right = source + s.as_index(left), source + s.as_index(right)
        key_left = s.load(self.keys_at, at_left, has_left, zero)
        key_right = s.load(self.keys_at, at_right, has_right, zero)
        from_left = s.param("from_left", has_left.dtype)
        pick = has_left & (~has_right | ~self.before(key_right, key_left))
        chosen = s.select(from_left, left, right)
        place = source + s.as_index(chosen)
        step = (
            c.Let((("from_left", pick),)),
            c.Puts(
                (
                    c.Put(self.keys_at, goal + out, s.load(self.keys_at, place)),
                    c.Put(self.places_at, goal + out, s.load(self.places_at, place)),
                )
            ),
            c.Set(
                (
                    ("left_at", left + s.cast(from_left, left.dtype)),
                    ("right_at", right + s.cast(~from_left, right.dtype)),
                )
            ),
        )
        begin = (
            ("left_at", taken + context.whole(pair)),
            ("right_at", context.whole(middle + first - pair) - taken),
        )
        loop = c.For(out, first, minimum(self.length, first + PIECE), 1, step)
        return (c.Let(begin, True), loop)

    def write(self, statement: ir.Sort) -> c.Kernel:
        """The positions that are asked for, to where the program wants them."""
        context, keys, stored = self.context("write"), self.keys, statement.stored
        row = ir.Axis("row_id", keys.rows)

        def body(item: Var) -> Sequence[c.Code]:
            place, binds = item, bound((*keys.axes, stored), item)
            if statement.first is not None:
                place = row.var * self.length + stored.var
                binds = (*bound((row, stored), item), *bound(keys.axes, row.var))
            found = s.cast(s.load(self.places_at, self.sorted_half() + place), int64)
            return (*binds, context.put(statement.dest, statement.at, found))

        return context.flat_kernel(keys.rows * stored.extent, body, self.passes(False))

    def before(self, a: E, b: E) -> E:
        """Does key a stand strictly before key b? NaN is the largest; both zeros are equal."""
        if self.keys.descending:
            a, b = b, a
        less = s.lt(a, b)
        if not a.dtype.is_floating_point:
            return less
        return less | (s.is_nan(b) & ~s.is_nan(a))


_OUT = s.param("is_out", s.lt(s.const(0, int64), s.const(1, int64)).dtype)
