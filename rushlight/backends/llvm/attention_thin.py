"""Attention of a few queries (a decoding step): keys and values are read in place, once.

An instance is all queries of a batch element. Keys lie in the lanes of vectors:

    for each tile of KEY_BLOCK keys:
        scores [query][key]: square blocks of k are turned in registers, each lane is one chain
        for each query: the score hole, the largest, p = exp(score - largest), their sum
        sums [query][n] += p * v, rows of v as they lie
    divide by the sums of p, the stores

Always true: the bits are those of every other schedule (see [attention] of tile/ir): a score is one
chain over ascending k, p are added in ascending order of keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from rushlight.backends.llvm.attention_pairs import kept_pairs
from rushlight.backends.llvm.attention_sides import accs_of, side_of, up
from rushlight.backends.llvm.attention_steps import in_cases
from rushlight.backends.llvm.attention_thin_vectors import Index, ThinVectors
from rushlight.backends.llvm.attention_tiles import any_is, kinds_of, tiles_of
from rushlight.backends.llvm.context import I1, Env, IndexEmitter, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.ops import constant, splat
from rushlight.backends.llvm.pack import (
    Operand,
    PackEmitter,
    Panel,
    in_vectors,
    lane_mask,
    min_value,
)
from rushlight.backends.llvm.puts import emit_stores
from rushlight.backends.llvm.schedule_attention import ThinAttention
from rushlight.backends.llvm.transpose import emit_transpose
from rushlight.backends.llvm.values import ValueEmitter, emit_value
from rushlight.compiler.tile.ir import KEY_BLOCK, AttentionGrid, Axis, PairSum, Store
from rushlight.ir.scalar import E, acc, cast


@dataclass(frozen=True)
class _Sum:
    """One sum of the softmax: its operand, and its rows [query][step] in scratch."""

    item: PairSum
    n: Axis
    value: E
    step: int
    at: Index


class ThinAttentionEmitter(ThinVectors):
    def __init__(self, ctx: KernelContext, grid: AttentionGrid, schedule: ThinAttention) -> None:
        super().__init__(ctx, grid, schedule.lanes)
        self.side = side_of(grid, "l")
        self.rows: int = grid.l.extent  # type: ignore[assignment]
        assert grid.softmax is not None
        self.softmax, self.kept = grid.softmax, kept_pairs(grid)
        self.accs = accs_of([self.softmax.score])
        self.queries = []
        for number in self.accs:
            k = self.side.products[number].k
            assert isinstance(k.extent, int)
            step = up(k.extent, self.lanes) + self.lanes
            operand = Operand(
                self.side.own[number], grid.l, k, self.rows, self.lanes, True, self.dtype, step
            )
            place = self.layout.place(self.rows * step + operand.slack)
            self.queries.append((PackEmitter(ctx, operand), step, place))
        count = max(1, len(self.accs))
        self.tiles_at = [self.layout.place(self.rows * KEY_BLOCK) for _ in range(count)]
        self.top_at, self.total_at, self.shrink_at = (
            self.layout.place(self.rows) for _ in range(3)
        )
        self.sums = [self._sum(item) for item in grid.sums]
        self.extents = [axis.extent for axis in grid.batch]

    def _sum(self, item: PairSum) -> _Sum:
        assert item.n is not None and item.other is not None and isinstance(item.n.extent, int)
        step = up(max(1, item.n.extent), self.lanes)
        place = self.layout.place(self.rows * step)
        return _Sum(item, item.n, cast(item.other, self.dtype), step, place)

    # ---- the instance --------------------------------------------------------------------

    def emit(self) -> None:
        ctx, grid = self.ctx, self.grid
        with ctx.instances(self.extents) as batch:
            builder = ctx.builder
            env = {axis.name: at for axis, at in zip(grid.batch, batch, strict=True)}
            self._begin(builder, env)
            rows = i64(self.rows)
            with tiles_of(ctx, builder, self.side, grid.causal, env, i64(0), rows) as (tile, code):
                extent = ctx.int_expr(builder, grid.s.extent, {})
                high = min_value(builder, builder.sub(extent, tile), i64(KEY_BLOCK))
                partial = builder.icmp_signed("<", high, i64(KEY_BLOCK))
                if self.kept is not None:
                    asks: ir.Value = I1(1)
                    if code is not None:
                        kinds = kinds_of(builder, self.side, code, i64(0))
                        asks = any_is(builder, kinds, "!=", 2)
                    partial = builder.or_(partial, asks)
                self._tile(builder, env, tile, high, partial)
            with ctx.for_range(builder, i64(0), rows) as row:
                self._finish(builder, env, row)

    def _begin(self, builder: ir.IRBuilder, env: Env) -> None:
        for number, (pack, _, place) in zip(self.accs, self.queries, strict=True):
            target = self._local(builder, place)
            features = self.side.products[number].k.extent
            pack.emit(builder, Panel(target, i64(0), i64(self.rows), i64(0), i64(features)), env)
        with self.ctx.for_range(builder, i64(0), i64(self.rows)) as row:
            lowest, zero = (constant(self.element, x) for x in (float("-inf"), 0.0))
            self._store(builder, lowest, self._local(builder, self.top_at), row)
            self._store(builder, zero, self._local(builder, self.total_at), row)
        for part in self.sums:
            base, room = self._local(builder, part.at), i64(self.rows * part.step)
            with self.ctx.for_range(builder, i64(0), room, self.lanes) as at:
                self._store(builder, self.zero, base, at)

    def _tile(
        self, builder: ir.IRBuilder, env: Env, tile: ir.Value, high: ir.Value, partial: ir.Value
    ) -> None:
        for number, place in zip(self.accs, self.tiles_at, strict=False):
            self._product(builder, env, number, tile, high, self._local(builder, place))
        in_cases(builder, partial, lambda p: self._scores(builder, env, tile, high, p))
        if not self.sums:
            self._totals(builder, high)
        for part in self.sums:
            self._rescale(builder, part)
            self._add(builder, env, part, tile, high)

    # ---- scores --------------------------------------------------------------------------

    def _product(
        self, builder: ir.IRBuilder, env: Env, number: int, tile: ir.Value, high: ir.Value,
        scores: ir.Value,
    ) -> None:  # fmt: skip
        """acc `number` of all queries with the keys of the tile, `lanes` keys at a time."""
        ctx, lanes, k = self.ctx, self.lanes, self.side.products[number].k
        _, step, place = self.queries[self.accs.index(number)]
        queries, rows = self._local(builder, place), range(self.rows)
        last = builder.sub(ctx.int_expr(builder, self.grid.s.extent, {}), i64(1))
        whole = i64(k.extent // lanes * lanes)
        index = IndexEmitter(ctx, builder, {})
        with ctx.for_range(builder, i64(0), high, lanes) as key:
            first = index.op("add", tile, key)
            lane_of = [index.op("add", first, i64(lane)) for lane in range(lanes)]
            keys = [index.op("min", at, last) for at in lane_of]

            def block(at: ir.Value, left: int, sums: list[ir.Value], keys=keys) -> list[ir.Value]:
                mask = lane_mask(builder, i64(left), lanes) if left < lanes else None
                loaded = []
                for key_at in keys:
                    self._prefetch(builder, env, self.side.inn[number], k, key_at, [at])
                    here = {**env, self.grid.s.name: key_at, k.name: at}
                    emitter = ValueEmitter(ctx, builder, here, Lanes(lanes, k, mask), {})
                    loaded.append(emitter.full(self.side.inn[number]))
                # A value that is the same for all features fills the lanes behind the last, too.
                for offset, column in enumerate(emit_transpose(builder, loaded)[:left]):
                    place = builder.add(at, i64(offset))
                    wide = [self._query(builder, queries, step, row, place) for row in rows]
                    sums = [
                        self._fma(builder, q, column, x) for q, x in zip(wide, sums, strict=True)
                    ]
                return sums

            with ctx.for_loop(builder, i64(0), whole, lanes, [self.zero] * self.rows) as loop:
                loop.set_next(block(loop.index, lanes, loop.carried))
            sums = loop.results
            if k.extent % lanes:
                sums = block(whole, k.extent % lanes, sums)
            for row, value in enumerate(sums):
                self._store(builder, value, scores, builder.add(key, i64(row * KEY_BLOCK)))

    def _query(
        self, builder: ir.IRBuilder, queries: ir.Value, step: int, row: int, at: ir.Value
    ) -> ir.Value:
        """One feature of a query in all lanes."""
        place = builder.gep(queries, [builder.add(at, i64(row * step))], source_etype=self.element)
        return splat(builder, builder.load(place, typ=self.element, align=self.size), self.lanes)

    def _scores(
        self, builder: ir.IRBuilder, env: Env, tile: ir.Value, high: ir.Value, partial: bool
    ) -> None:
        """Row by row: scores to probabilities; top and shrink brought up to date."""
        ctx, index = self.ctx, IndexEmitter(self.ctx, builder, {})
        top, shrink = (self._local(builder, at) for at in (self.top_at, self.shrink_at))
        target = self._local(builder, self.tiles_at[0])
        with ctx.for_range(builder, i64(0), i64(self.rows)) as row:
            start = builder.mul(row, i64(KEY_BLOCK))
            best = self.lowest
            for key in range(0, KEY_BLOCK, self.lanes):
                at = builder.add(start, i64(key))
                leaves = {
                    acc(self.dtype, n): self._load(builder, self._local(builder, place), at)
                    for n, place in zip(self.accs, self.tiles_at, strict=False)
                }
                here = {**env, self.grid.l.name: row,
                        self.grid.s.name: index.op("add", tile, i64(key))}  # fmt: skip
                value = self._score(builder, here, leaves, builder.sub(high, i64(key)), partial)
                self._store(builder, value, target, at)
                best = self._larger(builder, value, best)
            old = self._load_one(builder, top, row)
            new = self._larger(builder, self._across(builder, best), old)
            nothing = builder.fcmp_ordered("==", new, constant(self.element, float("-inf")))
            ref = builder.select(nothing, constant(self.element, 0.0), new)
            less = splat(builder, builder.fsub(old, ref), self.lanes)
            first = ir.Constant(ir.IntType(32), 0)
            factor = builder.extract_element(self._apply(builder, self.softmax.exp, less), first)
            self._store(builder, new, top, row)
            self._store(builder, factor, shrink, row)
            level = splat(builder, ref, self.lanes)
            for key in range(0, KEY_BLOCK, self.lanes):
                at = builder.add(start, i64(key))
                x = builder.fsub(self._load(builder, target, at), level)
                self._store(builder, self._apply(builder, self.softmax.exp, x), target, at)

    def _score(
        self, builder: ir.IRBuilder, here: Env, leaves: dict[E, ir.Value], left: ir.Value,
        partial: bool,
    ) -> ir.Value:  # fmt: skip
        lanes = Lanes(self.lanes, self.grid.s)
        if not partial:
            return emit_value(
                self.ctx, builder, self.softmax.score, here, lanes, {}, leaves
            )  # fmt: skip
        kept = lane_mask(builder, left, self.lanes)
        if self.kept is not None:
            inside = Lanes(self.lanes, self.grid.s, kept)
            kept = builder.and_(
                kept, emit_value(self.ctx, builder, self.kept, here, inside, {}, leaves)
            )
        lanes = Lanes(self.lanes, self.grid.s, kept)
        value = emit_value(self.ctx, builder, self.softmax.score, here, lanes, {}, leaves)
        return builder.select(kept, value, self.lowest)

    def _across(self, builder: ir.IRBuilder, best: ir.Value) -> ir.Value:
        """The largest of all lanes."""
        count = self.lanes
        while count > 1:
            count //= 2
            order = [(lane + count) % self.lanes for lane in range(self.lanes)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), order)
            best = self._larger(builder, builder.shuffle_vector(best, best, mask), best)
        return builder.extract_element(best, ir.Constant(ir.IntType(32), 0))

    def _totals(self, builder: ir.IRBuilder, high: ir.Value) -> None:
        """The sums of p where nothing else is added up."""
        rows = range(self.rows)
        with self.ctx.for_loop(builder, i64(0), high, 1, self._shrunk(builder, rows)) as loop:
            p = [self._probability(builder, row, loop.index) for row in rows]
            loop.set_next([builder.fadd(x, y) for x, y in zip(loop.carried, p, strict=True)])
        self._keep_totals(builder, rows, loop.results)

    def _shrunk(self, builder: ir.IRBuilder, rows: range) -> list[ir.Value]:
        """The sums of p so far: one chain of additions per query goes on from each."""
        total, shrink = (self._local(builder, at) for at in (self.total_at, self.shrink_at))
        return [
            builder.fmul(
                self._load_one(builder, total, i64(row)), self._load_one(builder, shrink, i64(row))
            )
            for row in rows
        ]

    def _keep_totals(self, builder: ir.IRBuilder, rows: range, values: list[ir.Value]) -> None:
        for row, value in zip(rows, values, strict=True):
            self._store(builder, value, self._local(builder, self.total_at), i64(row))

    def _probability(self, builder: ir.IRBuilder, row: int, key: ir.Value) -> ir.Value:
        at = builder.add(key, i64(row * KEY_BLOCK))
        return self._load_one(builder, self._local(builder, self.tiles_at[0]), at)

    # ---- sums ----------------------------------------------------------------------------

    def _rescale(self, builder: ir.IRBuilder, part: _Sum) -> None:
        """Shrink the sums of the queries that have a new largest score."""
        shrink, base = self._local(builder, self.shrink_at), self._local(builder, part.at)
        with self.ctx.for_range(builder, i64(0), i64(self.rows)) as row:
            factor = self._load_one(builder, shrink, row)
            changes = builder.fcmp_unordered("!=", factor, constant(self.element, 1.0))
            with builder.if_then(changes):
                start = builder.mul(row, i64(part.step))
                for column in range(0, part.step, self.lanes):
                    at = builder.add(start, i64(column))
                    value = self._load(builder, base, at)
                    many = splat(builder, factor, self.lanes)
                    self._store(builder, builder.fmul(value, many), base, at)

    def _add(
        self, builder: ir.IRBuilder, env: Env, part: _Sum, tile: ir.Value, high: ir.Value
    ) -> None:
        """sums += p @ v; some rows and columns at a time, in registers. The first columns of the
        first sum take the sums of p along: additions find room beside multiplications."""
        room = 24 if self.ctx.target.registers == 32 else 10
        vectors = min(4, part.step // self.lanes)
        rows = max(1, min(self.rows, room // vectors))
        for column in range(0, part.step, vectors * self.lanes):
            count = min(vectors, (part.step - column) // self.lanes)
            for row in range(0, self.rows, rows):
                some = range(row, min(row + rows, self.rows))
                columns = range(column, column + count * self.lanes, self.lanes)
                self._add_block(builder, env, part, tile, high, some, columns)

    def _add_block(
        self, builder: ir.IRBuilder, env: Env, part: _Sum, tile: ir.Value, high: ir.Value,
        rows: range, columns: range,
    ) -> None:  # fmt: skip
        base = self._local(builder, part.at)
        places = [i64(row * part.step + column) for row in rows for column in columns]
        start = [self._load(builder, base, at) for at in places]
        adds_up = part is self.sums[0] and columns.start == 0
        totals = self._shrunk(builder, rows) if adds_up else []
        width: int = part.n.extent  # type: ignore[assignment]
        with self.ctx.for_loop(builder, i64(0), high, 1, start + totals) as loop:
            key = IndexEmitter(self.ctx, builder, {}).op("add", tile, loop.index)
            self._prefetch(builder, env, part.value, part.n, key, [i64(c) for c in columns])
            values = []
            for column in columns:
                short = width - column < self.lanes
                mask = lane_mask(builder, i64(width - column), self.lanes) if short else None
                here = {**env, self.grid.s.name: key, part.n.name: i64(column)}
                lanes = Lanes(self.lanes, part.n, mask)
                values.append(emit_value(self.ctx, builder, part.value, here, lanes, {}))
            p = [self._probability(builder, row, loop.index) for row in rows]
            found, sums = [], iter(loop.carried)
            for one in p:
                many = splat(builder, one, self.lanes)
                found += [self._fma(builder, many, value, next(sums)) for value in values]
            found += [builder.fadd(total, one) for total, one in zip(sums, p, strict=False)]
            loop.set_next(found)
        for at, value in zip(places, loop.results, strict=False):
            self._store(builder, value, base, at)
        if adds_up:
            self._keep_totals(builder, rows, loop.results[len(places) :])

    # ---- the end -------------------------------------------------------------------------

    def _finish(self, builder: ir.IRBuilder, env: Env, row: ir.Value) -> None:
        top, total = (
            self._load_one(builder, self._local(builder, at), row)
            for at in (self.top_at, self.total_at)
        )
        here = {**env, self.grid.l.name: row}
        first = ir.Constant(ir.IntType(32), 0)
        many = splat(builder, total, self.lanes)
        log = builder.extract_element(self._apply(builder, self.softmax.log, many), first)
        self._stores(builder, self.softmax.lse_stores, here, Lanes(), builder.fadd(top, log))
        self._stores(builder, self.softmax.top_stores, here, Lanes(), top)
        zero, one = (constant(self.element, x) for x in (0.0, 1.0))
        nothing = builder.fcmp_ordered("==", total, zero)
        factor = builder.fdiv(one, builder.select(nothing, one, total))
        for part in self.sums:
            base, start = self._local(builder, part.at), builder.mul(row, i64(part.step))

            def put(
                column: ir.Value, mask: ir.Value | None, part=part, base=base, start=start
            ) -> None:
                value = self._load(builder, base, builder.add(start, column))
                value = builder.fmul(value, splat(builder, factor, self.lanes))
                lanes = Lanes(self.lanes, part.n, mask)
                at = {**here, part.n.name: column}
                self._stores(builder, part.item.stores, at, lanes, value)

            in_vectors(self.ctx, builder, i64(part.n.extent), self.lanes, put)

    def _stores(
        self, builder: ir.IRBuilder, stores: tuple[Store, ...], env: Env, lanes: Lanes,
        value: ir.Value,
    ) -> None:  # fmt: skip
        if stores:
            emit_stores(self.ctx, builder, stores, env, lanes, {self.acc: value})
