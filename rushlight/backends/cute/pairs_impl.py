"""What one thread makes of products of owners and others: weights, and a softmax if there is one.

In: `Work` of a side of attention, where the thread is. Out: weights, stores. Always true: with a
softmax a pair that is not kept has a score of -inf, without one a weight of 0; which of a thread's
values belongs to which of its owners is said by `Lanes`, the only thing that differs by chip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
from cutlass import cute
from cutlass._mlir.dialects import arith

from rushlight.backends.cute.epilogue_impl import base_values, position, put_all
from rushlight.backends.cute.flash_claims import KEYS, Side
from rushlight.backends.cute.values_impl import Values
from rushlight.base.dtypes import bool_, float32, int64
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E, as_index

LEAST = float("-inf")


@dataclass(frozen=True)
class Lanes:
    """owners   how many owners a thread has values of
    owner_of    value number -> which of them
    over        (value, join) -> joined with what other threads have of the same owner
    stores      (thread) -> does it store what there is one of for an owner?
    """

    owners: int
    owner_of: Callable[[int], int]
    over: Callable[[Any, Any], Any]
    stores: Callable[[Any], Any]


def over_quad(value: Any, join: Any) -> Any:
    """Joined with the values of the four threads that share their owners."""
    for distance in (1, 2):
        value = join(value, cute.arch.shuffle_sync_bfly(value, distance))
    return value


# wgmma: value i belongs to the first owner where i // 2 is even. Tensor memory: a row each.
QUADS = Lanes(2, lambda number: number // 2 % 2, over_quad, lambda thread: thread % 4 == 0)
ROWS = Lanes(1, lambda number: 0, lambda value, join: value, lambda thread: thread >= 0)


class Pairs:
    """One thread of a group. `places`: (owner, other) of each of its products in a tile."""

    def __init__(
        self, work: Any, lanes: Lanes, thread: Any, block: Any, batch: Any, memories: Any,
        numbers: Any, sizes: Any,
    ) -> None:  # fmt: skip
        self.work, self.side, self.grid, self.lanes = work, work.side, work.grid, lanes
        self.thread, self.memories = thread, memories
        self.start, self.around = block * self.side.rows, (batch, memories, numbers, sizes)

    # CuTe carries what is called inside of a branch or a loop. Nothing is carried here: all that
    # changes is memory.
    def __extract_mlir_values__(self) -> list[Any]:
        return []

    def __new_from_mlir_values__(self, values: list[Any]) -> Pairs:
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
        runs, values = self.side.runs, self.values(1)
        values.found[runs.row.name] = values.full(cutlass.Int64(self.start // runs.rows), int64)
        return values

    def runs(self) -> tuple[Any, Any]:
        """The first run of this block of owners, and the one after its last."""
        runs = self.side.runs
        if runs is None:
            return cutlass.Int32(0), cutlass.Int32(1)
        values = self._runs()
        return self._number(values, runs.begin), self._number(values, runs.end)

    def tiles_of_run(self, run: Any) -> tuple[Any, Any]:
        """Tiles of the others of a run, and no more than a causal mask lets be seen."""
        side, values = self.side, self.values(1)
        extent = values.lane(values.index(side.inner.extent), 0, int64).to(cutlass.Int32)
        low, high = cutlass.Int32(0), extent
        if self.grid.causal and side.name == "l":
            high = cutlass.min(high, cutlass.Int32(self.start + side.rows))
        if side.runs is not None:
            values = self._runs()
            values.found[side.runs.run.name] = values.full(cutlass.Int64(run), int64)
            low = self._number(values, side.runs.first) * side.runs.tile
            high = cutlass.min(high, self._number(values, side.runs.stop) * side.runs.tile)
        if self.grid.causal and side.name == "s":  # queries before the first key see none
            low = cutlass.max(low, cutlass.Int32(self.start))
        return low // KEYS, (high + KEYS - 1) // KEYS

    # registers ----------------------------------------------------------------------------------

    def begin(self, places: Any) -> None:
        self.places = places
        own = self.lanes.owners
        self.top, self.total, self.shrink = (
            cute.make_rmem_tensor(own, cutlass.Float32) for _ in range(3)
        )
        self.top.fill(LEAST)
        self.total.fill(0.0)

    def applied(self, function: E, values: Values, argument: Any) -> Any:
        """A function of the softmax (an expression of acc)."""
        inner = Values(values.lanes, {s.acc(float32): argument}, values.memory, values.param)
        (found,) = inner.of([function])
        return found

    def spread(self, numbers: Any, lanes: int) -> Any:
        """The number of its owner, for each of a thread's values."""
        spread = cute.make_rmem_tensor(lanes, cutlass.Float32)
        for number in range(lanes):
            spread[number] = numbers[self.lanes.owner_of(number)]
        return spread.load().ir_value()

    # one tile -----------------------------------------------------------------------------------

    def weigh(self, products: list[Any], tile: Any, first: int = 0) -> list[Any]:
        """Products, in registers, to a vector for each weight, or to one of scores where there is
        a softmax. `first`: of the others in the tile."""
        grid, softmax = self.grid, self.grid.softmax
        values, kept = self._pairs(products, tile, first)
        for number, one in enumerate(products):
            values.found[s.acc(float32, number)] = one.load().ir_value()
        if grid.causal:
            l, key = values.found[grid.l.name], values.found[grid.s.name]  # noqa: E741
            kept.append(arith.cmpi(arith.CmpIPredicate.sle, key, l))
        if grid.keep is not None:
            kept += values.of([grid.keep])
        if softmax is not None:
            return [self._kept(values, softmax.score, kept, LEAST)]
        return [self._kept(values, weight, kept, 0.0) for weight in self.side.weights]

    def _pairs(self, products: list[Any], tile: Any, first: int) -> tuple[Values, list[Any]]:
        """Values over pairs, and which of them are inside of both axes."""
        lanes, side = cute.size(products[0]), self.side
        values = self.values(lanes)
        owners = [cutlass.Int64(self.places[n][0] + self.start) for n in range(lanes)]
        others = [cutlass.Int64(self.places[n][1] + first + tile * KEYS) for n in range(lanes)]
        return values, [values.set_axis(side.owner, owners), values.set_axis(side.inner, others)]

    def _kept(self, values: Values, value: E, kept: list[Any], outside: float) -> Any:
        (x,) = values.of([value])
        least = values.full(outside, float32)
        for one in kept:
            x = x if one is None else arith.select(one, x, least)
        return x

    def soften(self, x: Any, lanes: int) -> Any:
        """Scores of a tile to probabilities; `shrink` is what sums are to be multiplied by."""
        softmax, owners, values = self.grid.softmax, self.lanes.owners, self.values(lanes)
        shrink, ref = (cute.make_rmem_tensor(owners, cutlass.Float32) for _ in range(2))
        for owner in range(owners):
            new = self.top[owner]
            for number in self._of(owner, lanes):  # fmax leaves NaN out
                new = cute.arch.fmax(new, values.lane(x, number, float32))
            new = self.lanes.over(new, cute.arch.fmax)
            zero = cutlass.Float32(0.0).ir_value()
            is_least = (new == LEAST).ir_value()
            ref[owner] = cutlass.Float32(arith.select(is_least, zero, new.ir_value()))
            shrink[owner] = self.top[owner] - ref[owner]
            self.top[owner] = new
        few = Values(owners, {}, values.memory, values.param)
        shrunk = self.applied(softmax.exp, few, shrink.load().ir_value())
        p = arith.subf(x, self.spread(ref, lanes))
        p = self.applied(softmax.exp, values, p)
        for owner in range(owners):
            self.shrink[owner] = few.lane(shrunk, owner, float32)
            own = self.total[owner] * self.shrink[owner]
            for number in self._of(owner, lanes):
                own = own + values.lane(p, number, float32)
            self.total[owner] = own
        return p

    def _of(self, owner: int, lanes: int) -> list[int]:
        return [number for number in range(lanes) if self.lanes.owner_of(number) == owner]

    # results ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Totals of whole owners; `shrink` becomes what sums are multiplied by at the end."""
        for owner in range(self.lanes.owners):
            self.total[owner] = self.lanes.over(self.total[owner], lambda a, b: a + b)
            is_empty = (self.total[owner] == 0.0).ir_value()
            one = cutlass.Float32(1.0).ir_value()
            safe = arith.select(is_empty, one, self.total[owner].ir_value())
            self.shrink[owner] = cutlass.Float32(arith.divf(one, safe))

    def put_sums(self, number: int, sums: Any, places: Any) -> None:
        """What a thread has of a sum, after `close`."""
        item, lanes = self.side.sums[number], cute.size(sums)
        values = self.values(lanes)
        owners = [cutlass.Int64(places[n][0] + self.start) for n in range(lanes)]
        inside = values.set_axis(self.side.owner, owners)
        values.set_axis(item.n, [cutlass.Int64(places[n][1]) for n in range(lanes)])
        result = sums.load().ir_value()
        if self.grid.softmax is not None:
            result = arith.mulf(result, self.spread(self.shrink, lanes))
        self._put(values, item.stores, result, inside)

    def put_owners(self, firsts: list[Any]) -> None:
        """lse and top. `firsts`: a place of each owner."""
        softmax, own = self.grid.softmax, self.lanes.owners
        if softmax is None:
            return
        values = self.values(own)
        inside = values.set_axis(
            self.grid.l, [cutlass.Int64(first[0] + self.start) for first in firsts]
        )
        stores = values.full(self.lanes.stores(self.thread), bool_)
        inside = stores if inside is None else arith.andi(inside, stores)
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


def side_of(work: Any) -> Side:
    """Which of attention's kernels is traced."""
    assert work.side is not None
    return work.side
