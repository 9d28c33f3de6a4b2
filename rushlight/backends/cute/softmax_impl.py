"""The softmax of one thread: two queries, a fourth of the keys of a tile, and its sums.

In: `Work` of an attention, where the thread is. Out: stores. Always true: a thread's value number i
belongs to its first query where i // 2 is even, else to its second; the four threads of a quad
share their two queries.
"""

from __future__ import annotations

from typing import Any

import cutlass
from cutlass import cute
from cutlass._mlir.dialects import arith

from rushlight.backends.cute.epilogue_impl import base_values, position, put_all
from rushlight.backends.cute.values_impl import Values
from rushlight.base.dtypes import bool_, float32, int64
from rushlight.compiler.tile import ir
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E, as_index

KEYS = ir.KEY_BLOCK
ROWS = 2  # queries of a thread
LEAST = float("-inf")


def row_of(number: int) -> int:
    return number // 2 % ROWS


class Softmax:
    """`scores`, `weights` and `sums`: what is multiplied next, in registers."""

    def __init__(
        self, work: Any, thread: Any, block: Any, batch: Any, memories: Any, numbers: Any,
        sizes: Any,
    ) -> None:  # fmt: skip
        self.work, self.grid, self.thread = work, work.grid, thread
        self.start, self.around = block * work.rows, (batch, memories, numbers, sizes)
        self.memories = memories

    # CuTe carries what is called inside of a branch or a loop. Nothing is carried here: all that
    # changes is memory.
    def __extract_mlir_values__(self) -> list[Any]:
        return []

    def __new_from_mlir_values__(self, values: list[Any]) -> Softmax:
        return self

    def values(self, lanes: int) -> Values:
        return base_values(self.work, lanes, *self.around)

    # which tiles --------------------------------------------------------------------------------

    def _number(self, values: Values, value: E) -> Any:
        """The one value of an index expression, as CuTe's Int32."""
        at = as_index(value)
        values.of(list(s.index_values(at)))
        return values.lane(values.index(at), 0, int64).to(cutlass.Int32)

    def _runs(self) -> Values:
        runs = self.grid.runs_l
        values = self.values(1)
        values.found[runs.row.name] = values.full(cutlass.Int64(self.start // runs.rows), int64)
        return values

    def runs(self) -> tuple[Any, Any]:
        """The first run of this block of queries, and the one after its last."""
        runs = self.grid.runs_l
        if runs is None:
            return cutlass.Int32(0), cutlass.Int32(1)
        values = self._runs()
        return self._number(values, runs.begin), self._number(values, runs.end)

    def tiles_of_run(self, run: Any) -> tuple[Any, Any]:
        """Tiles of keys of a run, and no more than a causal mask lets be seen."""
        runs, values = self.grid.runs_l, self.values(1)
        extent = values.lane(values.index(self.grid.s.extent), 0, int64).to(cutlass.Int32)
        low, high = cutlass.Int32(0), extent
        if self.grid.causal:
            high = cutlass.min(high, cutlass.Int32(self.start + self.work.rows))
        if runs is not None:
            values = self._runs()
            values.found[runs.run.name] = values.full(cutlass.Int64(run), int64)
            low = self._number(values, runs.first) * runs.tile
            high = cutlass.min(high, self._number(values, runs.stop) * runs.tile)
        return low // KEYS, (high + KEYS - 1) // KEYS

    # registers ----------------------------------------------------------------------------------

    def begin(self, mine_x: Any, mine_o: Any) -> None:
        work = self.work
        self.places = mine_x.partition_C(cute.make_identity_tensor((work.rows, KEYS)))
        self.result_places = mine_o.partition_C(
            cute.make_identity_tensor((work.rows, work.results))
        )
        self.scores = cute.make_rmem_tensor(self.places.shape, cutlass.Float32)
        self.sums = cute.make_rmem_tensor(self.result_places.shape, cutlass.Float32)
        # 16 keys after 16 keys: the order in which wgmma takes them is that in which it gives them.
        self.weights = cute.make_rmem_tensor(((2, 2, 2), 1, KEYS // 16), work.kind)
        self.top, self.total = (cute.make_rmem_tensor(ROWS, cutlass.Float32) for _ in range(2))
        self.sums.fill(0.0)
        self.top.fill(LEAST)
        self.total.fill(0.0)

    def applied(self, function: E, values: Values, argument: Any) -> Any:
        """A function of the softmax (an expression of acc)."""
        inner = Values(values.lanes, {s.acc(float32): argument}, values.memory, values.param)
        (found,) = inner.of([function])
        return found

    def rows_as_vector(self, numbers: Any, lanes: int) -> Any:
        """The number of its query, for each of a thread's values."""
        spread = cute.make_rmem_tensor(lanes, cutlass.Float32)
        for number in range(lanes):
            spread[number] = numbers[row_of(number)]
        return spread.load().ir_value()

    # one tile -----------------------------------------------------------------------------------

    def step(self, tile: Any) -> None:
        """Scores become weights; total and sums shrink to the new top."""
        softmax, lanes = self.grid.softmax, cute.size(self.scores)
        values = self.values(lanes)
        x = self._scores(values, tile)
        shrink, ref = (cute.make_rmem_tensor(ROWS, cutlass.Float32) for _ in range(2))
        for row in range(ROWS):
            new = self.top[row]
            for number in range(lanes):
                if row_of(number) == row:  # fmax leaves NaN out
                    new = cute.arch.fmax(new, values.lane(x, number, float32))
            new = self._over_quad(new, cute.arch.fmax)
            ref[row] = cutlass.Float32(
                arith.select(
                    (new == LEAST).ir_value(), cutlass.Float32(0.0).ir_value(), new.ir_value()
                )
            )
            shrink[row] = self.top[row] - ref[row]
            self.top[row] = new
        two = Values(ROWS, {}, values.memory, values.param)
        shrunk = self.applied(softmax.exp, two, shrink.load().ir_value())
        for row in range(ROWS):
            shrink[row] = two.lane(shrunk, row, float32)
        p = arith.subf(x, self.rows_as_vector(ref, lanes))
        p = self.applied(softmax.exp, values, p)
        for row in range(ROWS):
            own = self.total[row] * shrink[row]
            for number in range(lanes):
                if row_of(number) == row:
                    own = own + values.lane(p, number, float32)
            self.total[row] = own
        for number in range(cute.size(self.sums)):
            self.sums[number] = self.sums[number] * shrink[row_of(number)]
        for number in range(lanes):
            self.weights[number] = values.lane(p, number, float32).to(self.work.kind)

    def _scores(self, values: Values, tile: Any) -> Any:
        grid, lanes = self.grid, values.lanes
        own_l = [cutlass.Int64(self.places[n][0] + self.start) for n in range(lanes)]
        own_s = [cutlass.Int64(self.places[n][1] + tile * KEYS) for n in range(lanes)]
        kept = [values.set_axis(grid.l, own_l), values.set_axis(grid.s, own_s)]
        values.found[s.acc(float32)] = self.scores.load().ir_value()
        if grid.causal:
            l, key = values.found[grid.l.name], values.found[grid.s.name]  # noqa: E741
            kept.append(arith.cmpi(arith.CmpIPredicate.sle, key, l))
        if grid.keep is not None:
            kept += values.of([grid.keep])
        (x,) = values.of([grid.softmax.score])
        least = values.full(LEAST, float32)
        for one in kept:
            x = x if one is None else arith.select(one, x, least)
        return x

    def _over_quad(self, value: Any, join: Any) -> Any:
        for distance in (1, 2):
            value = join(value, cute.arch.shuffle_sync_bfly(value, distance))
        return value

    # results ------------------------------------------------------------------------------------

    def finish(self) -> None:
        grid, lanes = self.grid, cute.size(self.sums)
        for row in range(ROWS):
            self.total[row] = self._over_quad(self.total[row], lambda a, b: a + b)
        share = cute.make_rmem_tensor(ROWS, cutlass.Float32)
        for row in range(ROWS):
            is_empty = (self.total[row] == 0.0).ir_value()
            one = cutlass.Float32(1.0).ir_value()
            safe = arith.select(is_empty, one, self.total[row].ir_value())
            share[row] = cutlass.Float32(arith.divf(one, safe))
        values, item = self.values(lanes), grid.sums[0]
        rows = [cutlass.Int64(self.result_places[n][0] + self.start) for n in range(lanes)]
        inside = values.set_axis(grid.l, rows)
        columns = [cutlass.Int64(self.result_places[n][1]) for n in range(lanes)]
        values.set_axis(item.n, columns)
        result = arith.mulf(self.sums.load().ir_value(), self.rows_as_vector(share, lanes))
        self._put(values, item.stores, result, inside)
        self._per_row()

    def _per_row(self) -> None:
        """lse and top: one thread of a quad stores them."""
        softmax, values = self.grid.softmax, self.values(ROWS)
        firsts = [cutlass.Int64(self.places[2 * row][0] + self.start) for row in range(ROWS)]
        inside = values.set_axis(self.grid.l, firsts)
        is_first = values.full(self.thread % 4 == 0, bool_)
        inside = is_first if inside is None else arith.andi(inside, is_first)
        top = self.top.load().ir_value()
        if softmax.lse_stores:
            log = self.applied(softmax.log, values, self.total.load().ir_value())
            self._put(values, softmax.lse_stores, arith.addf(top, log), inside)
        self._put(values, softmax.top_stores, top, inside)

    def _put(self, values: Values, stores: Any, result: Any, inside: Any) -> None:
        own = Values(values.lanes, dict(values.found), values.memory, values.param)
        own.found[s.acc(float32)] = result
        for store in stores:
            put_all(own, store, inside, self.memories[position(self.work, store.dest)])
