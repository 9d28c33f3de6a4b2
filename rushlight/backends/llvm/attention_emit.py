"""One side of an attention: the loops over tiles and panels, the products, the places in scratch.

In: an AttentionGrid, a side of it, a schedule. Out: the body of a kernel function. What happens
between the products is in attention_steps.py, results in attention_results.py; attention.py says
how it all fits together.
"""

from __future__ import annotations

from llvmlite import ir

from rushlight.backends.llvm.attention_bins import BinSums
from rushlight.backends.llvm.attention_cross import CrossSums
from rushlight.backends.llvm.attention_pairs import PairEmitter, Place
from rushlight.backends.llvm.attention_results import ResultEmitter
from rushlight.backends.llvm.attention_sides import (
    Layout,
    Side,
    accs_of,
    inner_of,
)
from rushlight.backends.llvm.attention_steps import SoftmaxStep, State, Vectors, WeightStep
from rushlight.backends.llvm.attention_tiles import any_is, kinds_of, max_value, present, tiles_of
from rushlight.backends.llvm.context import I1, Env, IndexEmitter, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.micro import MicroShape, micro_kernel
from rushlight.backends.llvm.pack import Operand, PackEmitter, Panel, min_value
from rushlight.backends.llvm.schedule import along_k
from rushlight.backends.llvm.schedule_attention import AttentionSchedule, panel_rows
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import KEY_BLOCK, AttentionGrid, PairSum
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import ceildiv, maximum

Index = int | Expr


class AttentionEmitter:
    """One side of a grid."""

    def __init__(
        self, ctx: KernelContext, grid: AttentionGrid, side: Side, s: AttentionSchedule
    ) -> None:
        self.ctx, self.grid, self.side, self.schedule = ctx, grid, side, s
        dtype, softmax = grid.acc_dtype, grid.softmax
        sums = (*side.sums, *side.cross, *side.bins)
        roots = [x.weight for x in sums] if softmax is None else [softmax.score]
        self.accs = accs_of(roots)
        self.layout = Layout(dtype.itemsize)
        self.vectors = Vectors(ctx, dtype, s)
        self.pairs = PairEmitter(ctx, grid, side, s, roots, self.layout)
        self.softmax = self.weights = None
        if softmax is None:
            stored = (*side.cross, *side.bins)
            self.weights = WeightStep(self.vectors, side.sums, stored, self.pairs)
        else:
            self.softmax = SoftmaxStep(self.vectors, softmax, self.pairs)
        self.inner = inner_of(side, self.accs, s, dtype, ctx.target)
        self._place_operands()
        self._place_state()
        self.cross = CrossSums(self.vectors, side, side.cross, self.layout)
        self.bins = BinSums(self.vectors, side, self.layout)
        self.extents = [a.extent for a in grid.batch]
        self.blocks = ceildiv(side.owner.extent, s.owners)
        if not side.is_whole:
            self.extents.append(self.blocks)
        self.results = ResultEmitter(self.vectors, side.owner)

    def _place_operands(self) -> None:
        """Owners' panels and their packing; inner matrices and their micro kernels."""
        s, side, dtype, place = self.schedule, self.side, self.grid.acc_dtype, self.layout.place
        self.own: dict[int, tuple[Operand, Index]] = {}
        for number in self.accs:
            k, value = side.products[number].k, side.own[number]
            turned = along_k(value, side.owner, k)
            operand = Operand(value, side.owner, k, s.columns, s.lanes, turned, dtype)
            self.own[number] = (operand, place(s.owners * k.extent + operand.slack))
        operands = [m.operand(side.inner, s, dtype) for m in self.inner.matrices]
        self.packs = [PackEmitter(self.ctx, operand) for operand in operands]
        self.matrix_at = [
            place(0 if m.is_in_place else m.size(s) + operand.slack)
            for m, operand in zip(self.inner.matrices, operands, strict=True)
        ]

    def _micro(self, rows: int, steps: tuple[int, int]) -> ir.Function:
        s = self.schedule
        shape = MicroShape(rows, s.vectors, s.lanes, self.grid.acc_dtype, *steps)
        return micro_kernel(self.ctx.module, shape, self.ctx.target)

    def _place_state(self) -> None:
        s, place = self.schedule, self.layout.place
        step = self.softmax or self.weights
        assert step is not None
        rows = -(-KEY_BLOCK // s.inner_rows) * s.inner_rows
        stored = 1 if self.weights is None else len(self.weights.stored)
        self.tiles_at = [place(rows * s.columns) for _ in range(max(len(self.accs), stored, 1))]
        self.vectors_at = [place(s.owners) for _ in range(step.state_vectors)]
        self.sums: list[tuple[PairSum, int, Index]] = []  # the sum, rows of its block, room
        self.sums_at = []
        widest: Index = 1
        for item in self.side.sums:
            if item.n is None:
                continue
            width = item.n.extent
            rows = panel_rows(width if isinstance(width, int) else 64, s, self.ctx.target)
            # Room for whole vectors along n, which are read when the sums are turned.
            room = maximum(ceildiv(width, rows) * rows, ceildiv(width, s.lanes) * s.lanes)
            self.sums.append((item, rows, maximum(room, 1) * s.columns))
            self.sums_at.append(place(s.owners // s.columns * maximum(room, 1) * s.columns))
            widest = maximum(widest, ceildiv(width, s.lanes) * s.lanes)
        self.turned_at = place(s.columns * widest)

    # ---- the instance --------------------------------------------------------------------

    def emit(self) -> None:
        ctx, s = self.ctx, self.schedule
        with ctx.instances(self.extents) as coordinates:
            builder = ctx.builder
            batch = coordinates[: len(self.grid.batch)]
            env = {axis.name: at for axis, at in zip(self.grid.batch, batch, strict=True)}
            if not self.side.is_whole:
                self._owners(builder, env, builder.mul(coordinates[-1], i64(s.owners)))
                return
            # One block of owners after another: the sums go on.
            self.cross.begin(builder)
            self.bins.begin(builder)
            length = ctx.int_expr(builder, self.side.owner.extent, {})
            with ctx.for_range(builder, i64(0), length, s.owners) as first:
                self._owners(builder, env, first)
            self.cross.finish(builder, env, self.results)
            self.bins.finish(builder, env, self.results)

    def _owners(self, builder: ir.IRBuilder, env: Env, first: ir.Value) -> None:
        """A block of owners from begin to end."""
        ctx, s = self.ctx, self.schedule
        length = ctx.int_expr(builder, self.side.owner.extent, {})
        owners = min_value(builder, builder.sub(length, first), i64(s.owners))
        self._begin(builder, env, first, owners)
        causal = self.grid.causal
        with tiles_of(ctx, builder, self.side, causal, env, first, owners) as (tile, code):
            self._tile(builder, env, first, owners, tile, code)
        with ctx.for_range(builder, i64(0), owners, s.columns) as panel:
            self._finish(builder, env, first, owners, panel)

    def _begin(self, builder: ir.IRBuilder, env: Env, first: ir.Value, owners: ir.Value) -> None:
        """Pack the owners' operands; no sums yet."""
        ctx, s = self.ctx, self.schedule
        packs = {n: PackEmitter(ctx, operand) for n, (operand, _) in self.own.items()}
        step = self.softmax or self.weights
        assert step is not None
        self.cross.pack(builder, env, first, owners)
        with ctx.for_range(builder, i64(0), owners, s.columns) as panel:
            start, left = self._plus(builder, first, panel), builder.sub(owners, panel)
            for number, pack in packs.items():
                features = ctx.int_expr(builder, self.side.products[number].k.extent, {})
                target = self._own_panel(builder, number, panel)
                pack.emit(builder, Panel(target, start, left, i64(0), features), env)
            state = self._state(builder, panel)
            step.begin(builder, state)
            for (_, _, room), sums in zip(self.sums, state.tiles, strict=True):
                rows = builder.udiv(self._value(builder, room), i64(s.columns))
                self.vectors.fill(builder, sums, rows, self.vectors.zero)

    def _tile(
        self, builder: ir.IRBuilder, env: Env, first: ir.Value, owners: ir.Value, tile: ir.Value,
        code: ir.Value | None,
    ) -> None:  # fmt: skip
        ctx, s = self.ctx, self.schedule
        extent = ctx.int_expr(builder, self.side.inner.extent, {})
        rows = min_value(builder, builder.sub(extent, tile), i64(KEY_BLOCK))
        self._matrices(builder, env, tile, rows)
        with ctx.for_range(builder, i64(0), owners, s.columns) as panel:
            start, left = self._plus(builder, first, panel), builder.sub(owners, panel)
            last = builder.sub(builder.add(start, min_value(builder, left, i64(s.columns))), i64(1))
            low, high, partial = self._share(builder, start, last, tile, rows, code)
            place = Place({**env, self.side.owner.name: start}, left, tile, low, high)
            with builder.if_then(builder.icmp_signed("<", low, high)):
                self._block(builder, place, panel, partial)

    def _matrices(self, builder: ir.IRBuilder, env: Env, tile: ir.Value, rows: ir.Value) -> None:
        """Pack the tile's matrices, but for those that are read where they lie."""
        self.matrix_bases = []
        for matrix, pack, at in zip(self.inner.matrices, self.packs, self.matrix_at, strict=True):
            features = self.ctx.int_expr(builder, matrix.features.extent, {})
            if matrix.is_in_place:
                here = {**env, self.side.inner.name: tile, matrix.features.name: i64(0)}
                emitter = ValueEmitter(self.ctx, builder, here, Lanes(), {})
                self.matrix_bases.append(emitter.pointer(*matrix.value.meta))
                continue
            self.matrix_bases.append(self._local(builder, at))
            pack.emit(builder, Panel(self.matrix_bases[-1], tile, rows, i64(0), features), env)

    def _share(
        self, builder: ir.IRBuilder, start: ir.Value, last: ir.Value, tile: ir.Value,
        rows: ir.Value, code: ir.Value | None,
    ) -> tuple[ir.Value, ir.Value, ir.Value | None]:  # fmt: skip
        """Rows of the tile that owners start...last see, and whether the mask must be asked."""
        low, high = i64(0), rows
        partial: ir.Value | None = None if self.grid.keep is None else I1(1)
        if self.grid.causal and self.side.name == "l":
            high = min_value(builder, rows, builder.sub(builder.add(last, i64(1)), tile))
            crosses = builder.icmp_signed(">", builder.add(tile, high), builder.add(start, i64(1)))
            partial = crosses if partial is None else partial
        elif self.grid.causal:
            low = max_value(builder, builder.sub(start, tile), i64(0))
            crosses = builder.icmp_signed("<", builder.add(tile, low), last)
            partial = crosses if partial is None else partial
        if code is not None:
            kinds = kinds_of(builder, self.side, code, start)
            low, high = present(builder, self.side, kinds, low, high)
            if partial is not None:
                partial = builder.and_(partial, any_is(builder, kinds, "==", 1))
        return low, high, partial

    def _block(
        self, builder: ir.IRBuilder, place: Place, panel: ir.Value, partial: ir.Value | None
    ) -> None:
        """One tile of inner rows with one panel of owners."""
        s, state = self.schedule, self._state(builder, panel)
        tiles = [self._local(builder, at) for at in self.tiles_at]
        accs = dict(zip(self.accs, tiles, strict=False))
        for number in self.accs:
            self._multiply(builder, number, place, self._own_panel(builder, number, panel),
                           accs[number])  # fmt: skip
        if self.softmax is not None:
            self.softmax.run(builder, state, place, accs or {0: tiles[0]}, partial)
            stored = [self.vectors.acc]
        else:
            assert self.weights is not None
            stored = self.weights.stored
            self.weights.run(builder, state, place, accs, tiles[: len(stored)], partial)
        columns = i64(s.columns)
        ordered = [n for n, x in enumerate(self.side.sums) if x.n is not None]
        for number, (item, rows, _), sums in zip(ordered, self.sums, state.tiles, strict=True):
            assert item.n is not None
            width = self._value(builder, ceildiv(item.n.extent, rows) * rows)
            if self.softmax is not None:
                self.softmax.rescale(builder, sums, width)
            weight = tiles[0] if self.softmax is not None else tiles[stored.index(item.weight)]
            matrix = self.inner.matrices[self.inner.of_sum[number]]
            row_step, k_step = matrix.of_features
            micro = self._micro(rows, matrix.of_features)
            base = self.matrix_bases[self.inner.of_sum[number]]
            with self.ctx.for_range(builder, i64(0), width, rows) as row:
                skipped = builder.mul(place.low, i64(k_step))
                a = self._elements(builder, base, builder.mul(row, i64(row_step)))
                a = self._elements(builder, a, skipped)
                b = self._elements(builder, weight, builder.mul(place.low, columns))
                target = self._elements(builder, sums, builder.mul(row, columns))
                count = builder.sub(place.high, place.low)
                builder.call(micro, [a, b, columns, count, target, I1(0)])
        crossing = [tiles[stored.index(x.weight)] for x in self.side.cross]
        self.cross.add(builder, place, panel, crossing)
        self.bins.add(builder, place, dict(zip(stored, tiles, strict=False)))

    def _multiply(
        self, builder: ir.IRBuilder, number: int, place: Place, owners: ir.Value, tile: ir.Value
    ) -> None:
        """acc `number` of the tile, in whole register blocks."""
        s, at = self.schedule, self.inner.of_product[number]
        matrix = self.inner.matrices[at]
        row_step, _ = matrix.of_rows
        micro = self._micro(s.inner_rows, matrix.of_rows)
        base, columns = self.matrix_bases[at], i64(s.columns)
        features = self.ctx.int_expr(builder, matrix.features.extent, {})
        start = builder.sub(place.low, builder.urem(place.low, i64(s.inner_rows)))
        with self.ctx.for_range(builder, start, place.high, s.inner_rows) as row:
            a = self._elements(builder, base, builder.mul(row, i64(row_step)))
            target = self._elements(builder, tile, builder.mul(row, columns))
            builder.call(micro, [a, owners, columns, features, target, I1(1)])

    def _finish(
        self, builder: ir.IRBuilder, env: Env, first: ir.Value, owners: ir.Value, panel: ir.Value
    ) -> None:
        state, results = self._state(builder, panel), self.results
        here = {**env, self.side.owner.name: self._plus(builder, first, panel)}
        left, v = builder.sub(owners, panel), self.vectors
        factors = None
        if self.softmax is not None:
            top, step, softmax = state.vectors[0], self.softmax, self.softmax.softmax
            results.of_owners(
                builder, softmax.lse_stores, here, left, lambda at: step.lse(builder, state, at)
            )
            results.of_owners(
                builder, softmax.top_stores, here, left, lambda at: v.load(builder, top, at)
            )
            factors = step.factors(builder, state)
        else:
            plain = [x for x in self.side.sums if x.other is None]
            for item, vector in zip(plain, state.vectors, strict=True):
                results.of_owners(
                    builder, item.stores, here, left,
                    lambda at, vector=vector: v.load(builder, vector, at),
                )  # fmt: skip
        turned = self._local(builder, self.turned_at)
        for (item, _, _), sums in zip(self.sums, state.tiles, strict=True):
            assert item.n is not None
            results.with_features(
                builder, item.stores, item.n, sums, here, left, turned, factors
            )  # fmt: skip

    # ---- places --------------------------------------------------------------------------

    def _own_panel(self, builder: ir.IRBuilder, number: int, panel: ir.Value) -> ir.Value:
        operand, at = self.own[number]
        features = self._value(builder, operand.k.extent)
        return self._elements(builder, self._local(builder, at), builder.mul(panel, features))

    def _state(self, builder: ir.IRBuilder, panel: ir.Value) -> State:
        """Where the running values of a panel of owners lie."""
        number = builder.udiv(panel, i64(self.schedule.columns))
        vectors = [
            self._elements(builder, self._local(builder, at), panel) for at in self.vectors_at
        ]
        tiles = []
        for (_, _, room), at in zip(self.sums, self.sums_at, strict=True):
            offset = builder.mul(number, self._value(builder, room))
            tiles.append(self._elements(builder, self._local(builder, at), offset))
        return State(tuple(vectors), tuple(tiles))

    def _value(self, builder: ir.IRBuilder, expr: Index) -> ir.Value:
        return self.ctx.int_expr(builder, expr, {})

    def _plus(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        """Added where both are known, so that what depends on one of them leaves inner loops."""
        return IndexEmitter(self.ctx, builder, {}).op("add", a, b)

    def _elements(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.gep(base, [at], source_etype=self.vectors.element)

    def _local(self, builder: ir.IRBuilder, offset: Index) -> ir.Value:
        at = self._value(builder, offset)
        return builder.gep(self.ctx.args.local, [at], source_etype=ir.IntType(8))
