"""What happens between the products of an attention, for one panel of owners and one tile.

In: a tile [row][columns] of each acc. Out: code that makes probabilities (SoftmaxStep) or weights
(WeightStep) of it in place, and keeps the running values of the panel, as [attention] of tile/ir
says. Owners lie in lanes: everything here is done vector by vector and never crosses lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from rushlight.backends.llvm.attention_pairs import PairEmitter, Place
from rushlight.backends.llvm.context import KernelContext, i64, value_type
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.memory import any_lane
from rushlight.backends.llvm.ops import constant
from rushlight.backends.llvm.schedule_attention import AttentionSchedule
from rushlight.backends.llvm.values import emit_value
from rushlight.base.dtypes import DType
from rushlight.compiler.tile.ir import PairBins, PairSum, Softmax
from rushlight.ir.scalar import E, acc

MINUS_INFINITY = float("-inf")


@dataclass(frozen=True)
class State:
    """Addresses of a panel's running values: `top`, `total` or sums of weights per owner
    (`vectors`), and sums [n][columns] (`tiles`)."""

    vectors: tuple[ir.Value, ...]
    tiles: tuple[ir.Value, ...]


class Vectors:
    """Loads and stores of vectors in tiles [row][columns]."""

    def __init__(self, ctx: KernelContext, dtype: DType, s: AttentionSchedule) -> None:
        self.ctx, self.dtype, self.schedule = ctx, dtype, s
        self.element = value_type(dtype)
        self.vector = ir.VectorType(self.element, s.lanes)
        self.size = dtype.itemsize
        self.acc = acc(dtype)
        self.zero, self.one = constant(self.vector, 0.0), constant(self.vector, 1.0)
        self.lowest = constant(self.vector, MINUS_INFINITY)

    def columns(self) -> Iterator[int]:
        """Where the vectors of a panel begin."""
        return iter(range(0, self.schedule.columns, self.schedule.lanes))

    def at(self, builder: ir.IRBuilder, row: ir.Value, column: int) -> ir.Value:
        return builder.add(builder.mul(row, i64(self.schedule.columns)), i64(column))

    def place(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.gep(base, [at], source_etype=self.element)

    def load(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.load(self.place(builder, base, at), typ=self.vector, align=self.size)

    def store(self, builder: ir.IRBuilder, value: ir.Value, base: ir.Value, at: ir.Value) -> None:
        builder.store(value, self.place(builder, base, at), align=self.size)

    def fill(self, builder: ir.IRBuilder, base: ir.Value, rows: ir.Value, value: ir.Value) -> None:
        with self.ctx.for_range(builder, i64(0), rows) as row:
            for column in self.columns():
                self.store(builder, value, base, self.at(builder, row, column))


class SoftmaxStep:
    """vectors of the state: top, total. tiles: the sums."""

    state_vectors = 2

    def __init__(self, vectors: Vectors, softmax: Softmax, pairs: PairEmitter) -> None:
        self.v, self.softmax, self.pairs = vectors, softmax, pairs
        # How much a tile shrinks what was summed before it.
        self.shrink = vectors.ctx.stack_array(vectors.element, vectors.schedule.columns)

    def begin(self, builder: ir.IRBuilder, state: State) -> None:
        top, total = state.vectors
        for column in self.v.columns():
            self.v.store(builder, self.v.lowest, top, i64(column))
            self.v.store(builder, self.v.zero, total, i64(column))

    def run(
        self, builder: ir.IRBuilder, state: State, place: Place, tiles: dict[int, ir.Value],
        partial: ir.Value | None,
    ) -> None:  # fmt: skip
        """acc tiles -> probabilities in the first of them; top, total, shrink brought up to date.

        partial: is the mask to be asked? None: there is none.
        """
        v = self.v
        self.pairs.turn(builder, place, of_mask=False)
        best = self.pairs.ctx.stack_array(v.element, v.schedule.columns)
        in_cases(builder, partial, lambda p: self._largest(builder, place, tiles, best, p))
        scores = tiles[min(tiles)]
        refs, totals = [], []
        for column in v.columns():
            here = v.load(builder, best, i64(column))
            old = v.load(builder, state.vectors[0], i64(column))
            new = self._max(builder, here, old)
            nothing = builder.fcmp_ordered("==", new, v.lowest)
            ref = builder.select(nothing, v.zero, new)
            shrink = self._apply(builder, self.softmax.exp, builder.fsub(old, ref))
            v.store(builder, new, state.vectors[0], i64(column))
            v.store(builder, shrink, self.shrink, i64(column))
            refs.append(ref)
            total = v.load(builder, state.vectors[1], i64(column))
            totals.append(builder.fmul(total, shrink))
        with v.ctx.for_loop(builder, place.low, place.high, 1, totals) as loop:
            added = []
            for column, ref, total in zip(v.columns(), refs, loop.carried, strict=True):
                at = v.at(builder, loop.index, column)
                x = builder.fsub(v.load(builder, scores, at), ref)
                p = self._apply(builder, self.softmax.exp, x)
                v.store(builder, p, scores, at)
                added.append(builder.fadd(total, p))
            loop.set_next(added)
        for column, total in zip(v.columns(), loop.results, strict=True):
            v.store(builder, total, state.vectors[1], i64(column))

    def _largest(
        self, builder: ir.IRBuilder, place: Place, tiles: dict[int, ir.Value], best: ir.Value,
        partial: bool,
    ) -> None:  # fmt: skip
        """The scores, in the first tile; the largest of every owner."""
        v, pairs, score = self.v, self.pairs, self.softmax.score
        if partial:
            pairs.turn(builder, place, of_mask=True)
        masks = pairs.lane_masks(builder, place.left)
        start = [v.lowest] * v.schedule.vectors
        scores = tiles[min(tiles)]
        with v.ctx.for_loop(builder, place.low, place.high, 1, start) as loop:
            found = []
            for column, mask, highest in zip(v.columns(), masks, loop.carried, strict=True):
                at = v.at(builder, loop.index, column)
                accs = {acc(v.dtype, n): v.load(builder, t, at) for n, t in tiles.items()}
                here, kept = pairs.at(builder, place, loop.index, column, mask, accs, partial)
                value = here.value(score)
                if kept is not None:
                    value = builder.select(kept, value, v.lowest)
                if partial or score is not v.acc:
                    v.store(builder, value, scores, at)
                found.append(self._max(builder, value, highest))
            loop.set_next(found)
        for column, value in zip(v.columns(), loop.results, strict=True):
            v.store(builder, value, best, i64(column))

    def rescale(self, builder: ir.IRBuilder, sums: ir.Value, rows: ir.Value) -> None:
        """Shrink sums; nothing to do when no owner has a new largest score."""
        v = self.v
        shrinks = [v.load(builder, self.shrink, i64(column)) for column in v.columns()]
        changes = [builder.fcmp_unordered("!=", shrink, v.one) for shrink in shrinks]
        change = changes[0]
        for other in changes[1:]:
            change = builder.or_(change, other)
        with builder.if_then(any_lane(builder, change)):
            with v.ctx.for_range(builder, i64(0), rows) as row:
                for column, shrink in zip(v.columns(), shrinks, strict=True):
                    at = v.at(builder, row, column)
                    value = v.load(builder, sums, at)
                    v.store(builder, builder.fmul(value, shrink), sums, at)

    def factors(self, builder: ir.IRBuilder, state: State) -> list[ir.Value]:
        """What sums are multiplied by in the end: 1 / total."""
        v, found = self.v, []
        for column in v.columns():
            total = v.load(builder, state.vectors[1], i64(column))
            nothing = builder.fcmp_ordered("==", total, v.zero)
            found.append(builder.fdiv(v.one, builder.select(nothing, v.one, total)))
        return found

    def lse(self, builder: ir.IRBuilder, state: State, at: ir.Value) -> ir.Value:
        log = self._apply(
            builder, self.softmax.log, self.v.load(builder, state.vectors[1], at)
        )  # fmt: skip
        return builder.fadd(self.v.load(builder, state.vectors[0], at), log)

    def _max(self, builder: ir.IRBuilder, x: ir.Value, best: ir.Value) -> ir.Value:
        """The larger one; `best` where x is NaN (one instruction on x86)."""
        return builder.select(builder.fcmp_ordered(">", x, best), x, best)

    def _apply(self, builder: ir.IRBuilder, function: E, x: ir.Value) -> ir.Value:
        lanes = Lanes(self.v.schedule.lanes)
        return emit_value(self.v.ctx, builder, function, {}, lanes, {}, {self.v.acc: x})


class WeightStep:
    """vectors of the state: the owners' sums that have no `other`. tiles: their other sums.

    weights: the different ones; weight j goes to tile j, which held acc j before if there is one.
    """

    def __init__(
        self, vectors: Vectors, owners: Sequence[PairSum], others: Sequence[PairSum | PairBins],
        pairs: PairEmitter,
    ) -> None:  # fmt: skip
        self.v, self.pairs, sums = vectors, pairs, (*owners, *others)
        self.weights = list(dict.fromkeys(x.weight for x in sums))
        plain = [x for x in owners if x.other is None]
        self.stored = list(dict.fromkeys(x.weight for x in sums if x not in plain))
        self.plain = [x.weight for x in plain]
        self.state_vectors = len(self.plain)

    def begin(self, builder: ir.IRBuilder, state: State) -> None:
        for vector in state.vectors:
            for column in self.v.columns():
                self.v.store(builder, self.v.zero, vector, i64(column))

    def run(
        self, builder: ir.IRBuilder, state: State, place: Place, tiles: dict[int, ir.Value],
        targets: Sequence[ir.Value], partial: ir.Value | None,
    ) -> None:  # fmt: skip
        """acc tiles -> stored weights in `targets` (which may be the same memory)."""
        self.pairs.turn(builder, place, of_mask=False)
        in_cases(
            builder, partial, lambda p: self._weights(builder, state, place, tiles, targets, p)
        )

    def _weights(
        self, builder: ir.IRBuilder, state: State, place: Place, tiles: dict[int, ir.Value],
        targets: Sequence[ir.Value], partial: bool,
    ) -> None:  # fmt: skip
        v, pairs = self.v, self.pairs
        if partial:
            pairs.turn(builder, place, of_mask=True)
        masks = pairs.lane_masks(builder, place.left)
        columns = list(v.columns())
        carried = [
            v.load(builder, vector, i64(column)) for vector in state.vectors for column in columns
        ]
        with v.ctx.for_loop(builder, place.low, place.high, 1, carried) as loop:
            sums = dict(zip(((n, c) for n in range(len(self.plain)) for c in columns),
                            loop.carried, strict=True))  # fmt: skip
            for column, mask in zip(columns, masks, strict=True):
                at = v.at(builder, loop.index, column)
                accs = {acc(v.dtype, n): v.load(builder, t, at) for n, t in tiles.items()}
                here, kept = pairs.at(builder, place, loop.index, column, mask, accs, partial)
                found = {}
                for weight in self.weights:
                    value = here.value(weight)
                    found[weight] = value if kept is None else builder.select(kept, value, v.zero)
                for weight, target in zip(self.stored, targets, strict=True):
                    v.store(builder, found[weight], target, at)
                for n, weight in enumerate(self.plain):
                    sums[n, column] = builder.fadd(sums[n, column], found[weight])
            loop.set_next([sums[n, c] for n in range(len(self.plain)) for c in columns])
        pairs_of = [(vector, c) for vector in state.vectors for c in columns]
        for (vector, column), value in zip(pairs_of, loop.results, strict=True):
            v.store(builder, value, vector, i64(column))


def in_cases(builder: ir.IRBuilder, partial: ir.Value | None, emit: Callable[[bool], None]) -> None:
    """emit(True) where `partial`, emit(False) elsewhere; constants are decided here."""
    if partial is None or isinstance(partial, ir.Constant):
        emit(partial is not None and bool(partial.constant))
        return
    with builder.if_else(partial) as (then, otherwise):
        with then:
            emit(True)
        with otherwise:
            emit(False)
