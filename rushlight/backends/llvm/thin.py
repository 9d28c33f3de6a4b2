"""Contractions with few rows of a (a decoding step): b is read in place, once, and not packed.

An instance computes `nc` columns of all rows. The rows of a are packed first.

  b straight  for k in steps of `unroll`: sweep over the columns; the sums lie in L1, a vector of
              them takes `unroll` multiply-adds per visit, and b is read in long runs
  b along k   for each vector of columns: square blocks of b are turned in registers, the sums stay
              in registers; the last k (fewer than a block) are gathered

Always true: the same chain over ascending k as every other schedule of a contraction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llvmlite import ir

from rushlight.backends.llvm.access import find_accesses, free_names, step_along
from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.memory import CACHE_LINE, prefetch
from rushlight.backends.llvm.micro import MicroShape, multiply_add
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
from rushlight.backends.llvm.schedule import ThinSchedule, dot_grain
from rushlight.backends.llvm.transpose import emit_transpose
from rushlight.backends.llvm.types import Launch
from rushlight.backends.llvm.values import ValueEmitter, emit_value
from rushlight.compiler.tile.ir import DotGrid
from rushlight.compiler.tile.known import with_known
from rushlight.compiler.tile.transform import Substitution
from rushlight.ir.scalar import E, acc, cast
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import ceildiv, maximum, product

Chains = list[list[ir.Value]]


def emit_thin(emitter: ThinEmitter) -> Launch:
    """The kernel function of a thin contraction; grid.m.extent is a small number."""
    ctx, grid, schedule = emitter.ctx, emitter.grid, emitter.schedule
    emitter.emit()
    # Every element of b is computed once, and then used by all rows.
    steps = grid.m.extent + find_accesses([grid.b], ()).cost()
    work = maximum(schedule.nc * steps * grid.k.extent // schedule.lanes, 1)
    name, count = ctx.function.name, product(emitter.extents)
    return Launch(name, 0, count, emitter.local_bytes, dot_grain(work), work)


class ThinEmitter:
    # Sums for each output in memory.
    ARRAYS = 1

    def __init__(self, ctx: KernelContext, grid: DotGrid, schedule: ThinSchedule) -> None:
        self.ctx, self.grid, self.schedule = ctx, grid, schedule
        s, dtype = schedule, grid.acc_dtype
        self.rows: int = grid.m.extent  # type: ignore[assignment]
        self.shape = MicroShape(self.rows, 1, s.lanes, dtype, 1, self.rows)
        a = cast(grid.a, dtype)
        step = grid.k.extent + s.lanes if s.along_k_a else None
        self.a = Operand(a, grid.m, grid.k, self.rows, s.lanes, s.along_k_a, dtype, step)
        self.b = cast(grid.b, dtype)
        self.extents = [*(axis.extent for axis in grid.batch), ceildiv(grid.n.extent, s.nc)]
        # The sums come first: their size is a number, so the rows of a start at a fixed place.
        self.a_offset = self.ARRAYS * self.rows * s.nc
        elements = self.a_offset + self.rows * (step or grid.k.extent) + self.a.slack
        self.local_bytes = elements * dtype.itemsize

    def emit(self) -> None:
        ctx, grid, s = self.ctx, self.grid, self.schedule
        self.pack_a = PackEmitter(ctx, self.a)
        self.sums = ctx.args.local
        with ctx.instances(self.extents) as coordinates:
            b = ctx.builder
            *batch, block = coordinates
            env = {axis.name: at for axis, at in zip(grid.batch, batch, strict=True)}
            n0 = b.mul(block, i64(s.nc))
            n = ctx.int_expr(b, grid.n.extent, {})
            count = min_value(b, b.sub(n, n0), i64(s.nc))
            k = ctx.int_expr(b, grid.k.extent, {})
            self.packed = self._element(b, self.sums, i64(self.a_offset))
            panel = Panel(self.packed, i64(0), i64(self.rows), i64(0), k)
            self.pack_a.emit(b, panel, env)
            if s.along_k_b:
                self._along_k(env, n0, count, k)
            else:
                self._straight(env, n0, count, k)
            self._epilogue(env, n0, count)

    # ---- pieces --------------------------------------------------------------------------

    def _element(self, b: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return b.gep(base, [at], source_etype=self.shape.element)

    def _sum(self, row: ir.Value, column: ir.Value) -> ir.Value:
        """The address of sums[row][column]."""
        b = self.ctx.builder
        return self._element(b, self.sums, b.add(b.mul(row, i64(self.schedule.nc)), column))

    def _broadcasts(self, k: ir.Value, steps: int) -> Iterator[list[ir.Value]]:
        """a[row, k + step] in all lanes, for every row, step by step."""
        b, size, row_step = self.ctx.builder, self.grid.acc_dtype.itemsize, self.a.row_step
        if row_step is None:
            start = self._element(b, self.packed, b.mul(k, i64(self.rows)))
            starts = [self._element(b, start, i64(row)) for row in range(self.rows)]
        else:
            step_value = self.ctx.int_expr(b, row_step, {})
            offsets = [b.add(b.mul(i64(row), step_value), k) for row in range(self.rows)]
            starts = [self._element(b, self.packed, at) for at in offsets]
        k_step = self.rows if row_step is None else 1
        for step in range(steps):
            rows = []
            for start in starts:
                place = self._element(b, start, i64(step * k_step))
                one = b.load(place, typ=self.shape.element, align=size)
                rows.append(splat(b, one, self.shape.lanes))
            yield rows

    def _add(
        self, sums: Sequence[ir.Value], a: Sequence[ir.Value], column: ir.Value
    ) -> list[ir.Value]:
        b, target = self.ctx.builder, self.ctx.target
        pairs = zip(sums, a, strict=True)
        return [multiply_add(b, self.shape, target, x, column, total) for total, x in pairs]

    def _b(self, env: Env, n: ir.Value, k: ir.Value, lanes: Lanes) -> ir.Value:
        inner = {**env, self.grid.n.name: n, self.grid.k.name: k}
        return emit_value(self.ctx, self.ctx.builder, self.b, inner, lanes, {})

    def _steps_of_b(self, unroll: int) -> list[E]:
        """b at k = unroll * the sweep's number + 0, 1, ...: divisions of k become numbers."""
        k = self.grid.k
        sweep = Var(k.name, 0, (k.extent - 1) // unroll, "axis")
        steps = (Substitution({k.name: sweep * unroll + step}) for step in range(unroll))
        return [with_known(step.expr(self.b)) for step in steps]

    # ---- b straight ----------------------------------------------------------------------

    def _straight(self, env: Env, n0: ir.Value, count: ir.Value, k: ir.Value) -> None:
        ctx, b, s = self.ctx, self.ctx.builder, self.schedule
        self._clear()
        whole = b.mul(b.sdiv(k, i64(s.unroll)), i64(s.unroll))
        with ctx.for_range(b, i64(0), whole, s.unroll) as at:
            self._sweep(env, n0, count, at, s.unroll)
        with ctx.for_range(b, whole, k) as at:
            self._sweep(env, n0, count, at, 1)

    def _clear(self) -> None:
        b, size = self.ctx.builder, self.grid.acc_dtype.itemsize
        zero = constant(self.shape.vector, 0)
        with self.ctx.for_range(b, i64(0), i64(self.a_offset), self.schedule.lanes) as at:
            b.store(zero, self._element(b, self.sums, at), align=size)

    def _chains(self, k: ir.Value, column: ir.Value, unroll: int) -> list[list[ir.Value]]:
        """Where the sums lie that the steps from k on take in turn, one for each row."""
        return [[self._sum(i64(row), column) for row in range(self.rows)]]

    def _sweep(self, env: Env, n0: ir.Value, count: ir.Value, k: ir.Value, unroll: int) -> None:
        """All columns take the steps k .. k + unroll - 1; k is a multiple of unroll."""
        ctx, b, s = self.ctx, self.ctx.builder, self.schedule
        size = self.grid.acc_dtype.itemsize
        steps, sweep = self._steps_of_b(unroll), b.sdiv(k, i64(unroll))
        a = list(self._broadcasts(k, unroll))

        def body(column: ir.Value, mask: ir.Value | None) -> None:
            chains = self._chains(k, column, unroll)
            sums = [[b.load(p, typ=self.shape.vector, align=size) for p in c] for c in chains]
            inner = {**env, self.grid.n.name: b.add(n0, column), self.grid.k.name: sweep}
            known: dict[E, ir.Value] = {}
            for number, (step, rows) in enumerate(zip(steps, a, strict=True)):
                lanes = Lanes(s.lanes, self.grid.n, mask, True)
                value = emit_value(ctx, b, step, inner, lanes, known)
                chain = number % len(chains)
                sums[chain] = self._add(sums[chain], rows, value)
            for total, places in zip(sums, chains, strict=True):
                for value, place in zip(total, places, strict=True):
                    b.store(value, place, align=size)

        in_vectors(ctx, b, count, s.lanes, body)

    # ---- b along k -----------------------------------------------------------------------

    def _along_k(self, env: Env, n0: ir.Value, count: ir.Value, k: ir.Value) -> None:
        ctx, b, s = self.ctx, self.ctx.builder, self.schedule
        size = self.grid.acc_dtype.itemsize
        with ctx.for_range(b, i64(0), count, s.lanes) as column:
            totals = self._vector_of_columns(env, b.add(n0, column), b.sub(count, column), k)
            for row, total in enumerate(totals):
                b.store(total, self._sum(i64(row), column), align=size)

    def _vector_of_columns(
        self, env: Env, n: ir.Value, left: ir.Value, k: ir.Value
    ) -> list[ir.Value]:
        """The sums of the columns from n on, of which `left` exist, one vector for each row."""
        b, s = self.ctx.builder, self.schedule
        zeros = [constant(self.shape.vector, 0)] * self.rows
        whole = b.mul(b.sdiv(k, i64(s.lanes)), i64(s.lanes))
        begun = self._square_blocks(env, n, left, i64(0), whole, [zeros])
        (totals,) = self._single_steps(env, n, left, whole, k, begun)
        return totals

    def _square_blocks(
        self, env: Env, n: ir.Value, left: ir.Value, start: ir.Value, stop: ir.Value,
        chains: Chains,
    ) -> Chains:  # fmt: skip
        """The steps of k from start to stop, whole vectors of them; chains take them in turn."""
        ctx, b, s = self.ctx, self.ctx.builder, self.schedule
        # Rows of b that do not exist are read again from the last one; nobody uses the sums.
        last = b.sub(left, i64(1))
        places = [b.add(n, min_value(b, last, i64(r))) for r in range(s.lanes)]
        with ctx.for_loop(b, start, stop, s.lanes, carried=sum(chains, [])) as loop:
            self._ask_ahead(env, n, loop.index)
            lanes = Lanes(s.lanes, self.grid.k)
            block = [self._b(env, place, loop.index, lanes) for place in places]
            sums = self._apart(loop.carried)
            steps = zip(
                self._broadcasts(loop.index, s.lanes), emit_transpose(b, block), strict=True
            )
            for number, (a, column_of_b) in enumerate(steps):
                chain = number % len(sums)
                sums[chain] = self._add(sums[chain], a, column_of_b)
            loop.set_next(sum(sums, []))
        return self._apart(loop.results)

    def _single_steps(
        self, env: Env, n: ir.Value, left: ir.Value, start: ir.Value, stop: ir.Value,
        chains: Chains,
    ) -> Chains:  # fmt: skip
        """The steps of k from start to stop. The chains change places with each of them."""
        ctx, b, s = self.ctx, self.ctx.builder, self.schedule
        mask = lane_mask(b, left, s.lanes)
        with ctx.for_loop(b, start, stop, carried=sum(chains, [])) as rest:
            gathered = self._b(env, n, rest.index, Lanes(s.lanes, self.grid.n, mask))
            (a,) = self._broadcasts(rest.index, 1)
            first, *others = self._apart(rest.carried)
            rest.set_next(sum([*others, self._add(first, a, gathered)], []))
        return self._apart(rest.results)

    def _apart(self, values: Sequence[ir.Value]) -> Chains:
        """One chain after another, `rows` sums each."""
        return [list(values[at : at + self.rows]) for at in range(0, len(values), self.rows)]

    def _ask_ahead(self, env: Env, n: ir.Value, k: ir.Value) -> None:
        """Ask for this step's part of the next rows of b, if they lie one after the other."""
        ctx, b, lanes = self.ctx, self.ctx.builder, self.schedule.lanes
        value = self.grid.b
        while value.op == "cast":
            (value,) = value.args
        if value.op != "load" or value.args:
            return
        names = free_names([value])
        along = [step_along(value.meta[1], x.name, names) for x in (self.grid.n, self.grid.k)]
        if along != [self.grid.k.extent, 1]:
            return
        size = value.dtype.itemsize
        here = {**env, self.grid.n.name: b.add(n, i64(lanes)), self.grid.k.name: i64(0)}
        start = ValueEmitter(ctx, b, here, Lanes(), {}).pointer(*value.meta)
        start = b.gep(start, [b.mul(k, i64(lanes * size))], source_etype=ir.IntType(8))
        for offset in range(0, lanes * lanes * size, CACHE_LINE):
            prefetch(b, b.gep(start, [i64(offset)], source_etype=ir.IntType(8)), level=2)

    # ---- the end -------------------------------------------------------------------------

    def _epilogue(self, env: Env, n0: ir.Value, count: ir.Value) -> None:
        ctx, b, grid, s = self.ctx, self.ctx.builder, self.grid, self.schedule
        result = acc(grid.acc_dtype)
        with ctx.for_range(b, i64(0), i64(self.rows)) as row:

            def body(column: ir.Value, mask: ir.Value | None) -> None:
                pointer = self._sum(row, column)
                total = b.load(pointer, typ=self.shape.vector, align=grid.acc_dtype.itemsize)
                inner = {**env, grid.m.name: row, grid.n.name: b.add(n0, column)}
                lanes, known = Lanes(s.lanes, grid.n, mask, True), {result: total}
                emit_stores(ctx, b, grid.stores, inner, lanes, known)

            in_vectors(ctx, b, count, s.lanes, body)
