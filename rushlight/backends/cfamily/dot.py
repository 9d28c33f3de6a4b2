"""DotGrid: one chain of multiply-adds over ascending k per output element, blocked in registers.

A group makes a tile of the output. It stages a piece of both operands in shared memory (so each
element of a prologue is computed once per tile), then each thread multiplies it into its block of
the output, which stays in registers:

    for k0 in steps of BK:
        stage A[BM][BK], B[BK][BN];  barrier
        for k < BK: for r < RM, n < RN: acc[r][n] = fma(A[..r][k], B[k][..n], acc[r][n])
        barrier
    store acc

A machine without groups has one thread for all blocks of the tile; they wait in memory between
pieces of k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.bounds import at_most
from rushlight.backends.cfamily.context import (
    Context,
    Index,
    Machine,
    Place,
    bound,
    get_at,
    put_at,
)
from rushlight.base.dtypes import DType
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.merge_axes import coefficient
from rushlight.compiler.tile.transform import index_exprs
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Var, is_nonnegative
from rushlight.ir.symint_math import ceildiv, minimum, product

Side = tuple[ir.Axis, Var, int]  # an axis, where a tile begins on it, how long it is


@dataclass(frozen=True)
class Schedule:
    """rows x columns blocks of rm x rn outputs make a tile; bk: the piece of k that is staged."""

    rows: int
    columns: int
    rm: int
    rn: int
    bk: int

    @property
    def bm(self) -> int:
        return self.rows * self.rm

    @property
    def bn(self) -> int:
        return self.columns * self.rn


def choose_schedule(grid: ir.DotGrid, machine: Machine) -> Schedule:
    """Never changes bits."""
    if machine.threads == 1:
        return Schedule(8, 2, 4, 128 // grid.acc_dtype.itemsize // 2, 64)
    blocks = min(64, machine.threads)
    tall = at_most(grid.m.extent)
    rows = 8
    while rows > 1 and isinstance(tall, int) and (rows - 1) * 4 >= tall:
        rows //= 2
    return Schedule(rows, max(1, blocks // rows), 4, 4, 16)


def lower_dot(
    grid: ir.DotGrid, machine: Machine, name: str
) -> tuple[list[c.Kernel], list[c.Array]]:
    schedule = choose_schedule(grid, machine)
    threads = min(machine.threads, schedule.rows * schedule.columns)
    context = Context(machine, name, threads)
    return [Dot(grid, schedule, context).kernel()], context.scratch


class Dot:
    zeroes = False  # what is staged outside of the operands is 0

    def __init__(self, grid: ir.DotGrid, schedule: Schedule, context: Context) -> None:
        self.grid, self.schedule, self.context = grid, schedule, context
        self.a_pitch, self.b_pitch = self._pitches()
        a_type, b_type = self.staged
        self.a_tile = context.array("a", a_type, schedule.bm * self.a_pitch)
        self.b_tile = context.array("b", b_type, schedule.bk * self.b_pitch)
        self.out_tile = context.array("out", grid.acc_dtype, schedule.bm * schedule.bn)
        self.m0, self.n0 = Var("first_m", 0, None, "axis"), Var("first_n", 0, None, "axis")
        self.k0 = Var("first_k", 0, grid.k.extent, "axis")
        self.row = ir.Axis("block_row", schedule.rows)
        self.column = ir.Axis("block_column", schedule.columns)

    @property
    def staged(self) -> tuple[DType, DType]:
        """In which dtypes the operands wait."""
        return self.grid.acc_dtype, self.grid.acc_dtype

    def _pitches(self) -> tuple[int, int]:
        """Between rows of the staged pieces. Threads read the same column of rows of `a` that are
        rm apart: one more word, and these lie in different banks."""
        alone = self.context.threads == 1
        return self.schedule.bk + (0 if alone else 1), self.schedule.bn

    def kernel(self) -> c.Kernel:
        grid, plan, context = self.grid, self.schedule, self.context
        tiles = (
            ir.Axis("tile_row", ceildiv(grid.m.extent, plan.bm)),
            ir.Axis("tile_column", ceildiv(grid.n.extent, plan.bn)),
        )
        lead = (*grid.batch, *tiles)
        instance = Var("instance_id", 0, None, "axis")
        body = (
            *bound(lead, instance),
            c.Bind(self.m0, tiles[0].var * plan.bm),
            c.Bind(self.n0, tiles[1].var * plan.bn),
            *self.multiply(),
            *context.barrier(),
            *self._store(),
        )
        return context.kernel(body, product(axis.extent for axis in lead), instance)

    def multiply(self) -> c.Block:
        """The tile of products, into out_tile."""
        return self._in_registers() if self.context.threads > 1 else self._in_memory()

    # the loop over k ----------------------------------------------------------------------------

    def _over_k(self, body: Sequence[c.Code]) -> c.For:
        return c.For(self.k0, 0, self.grid.k.extent, self.schedule.bk, tuple(body))

    def _k_steps(self, body: Callable[[Var], Sequence[c.Code]]) -> c.For:
        """The steps of k in the staged piece, ascending."""
        k = Var("k_i", 0, self.schedule.bk - 1, "axis")
        stop = minimum(self.schedule.bk, self.grid.k.extent - self.k0)
        return c.For(k, 0, stop, 1, tuple(body(k)))

    def _step(self, a: E, b: E, acc: E) -> E:
        return s.fma(a, b, acc) if self.grid.acc_dtype.is_floating_point else acc + a * b

    def _in_registers(self) -> c.Block:
        """Each thread has one block, in variables that are written out one by one."""
        plan, dtype = self.schedule, self.grid.acc_dtype
        cells = [(r, n) for r in range(plan.rm) for n in range(plan.rn)]
        accs = {cell: s.param("acc_{}_{}".format(*cell), dtype) for cell in cells}
        rows = [s.param(f"a_{r}_", dtype) for r in range(plan.rm)]
        columns = [s.param(f"b_{n}_", dtype) for n in range(plan.rn)]

        def multiply(k: Var) -> Sequence[c.Code]:
            reads = [(row.meta, self._a(r, k)) for r, row in enumerate(rows)]
            reads += [(column.meta, self._b(n, k)) for n, column in enumerate(columns)]
            steps = [
                c.Set(((acc.meta, self._step(rows[r], columns[n], acc)),))
                for (r, n), acc in accs.items()
            ]
            return (c.Let(tuple(reads)), *steps)

        pieces = (*self._stage(), c.Barrier(), self._k_steps(multiply), c.Barrier())
        return (
            *bound((self.row, self.column), c.THREAD),
            c.Let(tuple((acc.meta, s.const(0, dtype)) for acc in accs.values()), changes=True),
            self._over_k(pieces),
            c.Puts(tuple(put_at(self.out_tile, self._cell(*cell), accs[cell]) for cell in cells)),
        )

    def _in_memory(self) -> c.Block:
        """One thread has all blocks, one after another; a block is an array while it is worked on,
        which compilers keep in vector registers."""
        plan, context = self.schedule, self.context
        acc = context.private("acc", self.grid.acc_dtype, plan.rm * plan.rn)
        zero = s.const(0, self.grid.acc_dtype)
        out = ir.Axis("out_cell", plan.bm * plan.bn)
        clear = context.nest((out,), lambda: (put_at(self.out_tile, out.var, zero),), True)

        def each(body: Callable[[Var, Var], c.Code]) -> c.Block:
            r, n = Var("block_r", 0, plan.rm - 1, "axis"), Var("block_n", 0, plan.rn - 1, "axis")
            inner = c.For(n, 0, plan.rn, 1, (body(r, n),), independent=True)
            return (c.For(r, 0, plan.rm, 1, (inner,), unroll=True),)

        def here(r: Var, n: Var) -> E:
            return s.load(acc, r * plan.rn + n)

        read = each(
            lambda r, n: c.Put(acc, r * plan.rn + n, get_at(self.out_tile, self._cell(r, n)))
        )
        write = each(lambda r, n: put_at(self.out_tile, self._cell(r, n), here(r, n)))
        steps = self._k_steps(
            lambda k: each(
                lambda r, n: c.Put(
                    acc, r * plan.rn + n, self._step(self._a(r, k), self._b(n, k), here(r, n))
                )
            )
        )
        blocks = context.nest((self.row, self.column), lambda: (*read, steps, *write))
        return (*clear, self._over_k((*self._stage(), *blocks)))

    def _a(self, r: Index, k: Var) -> E:
        row = self.row.var * self.schedule.rm + r
        return get_at(self.a_tile, row * self.a_pitch + k)

    def _b(self, n: Index, k: Var) -> E:
        column = self.column.var * self.schedule.rn + n
        return get_at(self.b_tile, k * self.b_pitch + column)

    def _cell(self, r: Index, n: Index) -> Index:
        """Where an output of the block lies in the tile."""
        plan = self.schedule
        row, column = self.row.var * plan.rm + r, self.column.var * plan.rn + n
        return row * plan.bn + column

    # operands and results -----------------------------------------------------------------------

    def _stage(self) -> c.Block:
        grid, plan = self.grid, self.schedule
        row, column = (grid.m, self.m0, plan.bm), (grid.n, self.n0, plan.bn)
        piece = (grid.k, self.k0, plan.bk)
        values = zip((grid.a, grid.b), self.staged, strict=True)
        a, b = (self.context.expr(s.cast(value, dtype)) for value, dtype in values)
        return (
            *self._staged(self.a_tile, a, row, piece, self.a_pitch),
            *self._staged(self.b_tile, b, piece, column, self.b_pitch),
        )

    def _staged(self, tile: Place, value: E, outer: Side, inner: Side, pitch: int) -> c.Block:
        zero = (lambda at: (put_at(tile, at, s.const(0, value.dtype)),)) if self.zeroes else None
        return self._tile(outer, inner, pitch, lambda at: (put_at(tile, at, value),), value, zero)

    def _store(self) -> c.Block:
        """The epilogue of every output of the tile."""
        grid, plan, context = self.grid, self.schedule, self.context
        if not grid.stores:
            return ()

        def body(at: Index) -> c.Block:
            acc = get_at(self.out_tile, at)
            return (c.Puts(tuple(context.put_of(store, acc) for store in grid.stores)),)

        rows, columns = (grid.m, self.m0, plan.bm), (grid.n, self.n0, plan.bn)
        return self._tile(rows, columns, plan.bn, body, None)

    def _tile(
        self,
        outer: Side,
        inner: Side,
        pitch: int,
        body: Callable[[Index], c.Block],
        value: E | None,
        before: Callable[[Index], c.Block] | None = None,
    ) -> c.Block:
        """body(i * pitch + j) for each i, j of a tile, with the axes bound, where they lie inside;
        where some may not, `before` for all. Neighbouring threads take what is contiguous in
        `value`."""
        context, (axis_i, first_i, size_i), (axis_j, first_j, size_j) = self.context, outer, inner
        alone = context.threads == 1
        left_i, left_j = axis_i.extent - first_i, axis_j.extent - first_j
        i = context.axis("i", minimum(size_i, left_i) if alone else size_i)
        j = context.axis("j", minimum(size_j, left_j) if alone else size_j)
        at = i.var * pitch + j.var
        code = body(at)
        limits = None if alone else _limits((axis_i, size_i), (axis_j, size_j))
        if limits is not None:
            code = (*(before(at) if before else ()), c.If(limits, code))
        binds = (c.Bind(axis_i.var, first_i + i.var), c.Bind(axis_j.var, first_j + j.var))
        axes = (j, i) if value is not None and _runs_along(value, axis_i, axis_j) else (i, j)
        return context.spread(axes, lambda: (*binds, *code))


def _runs_along(value: E, first: ir.Axis, second: ir.Axis) -> bool:
    """Is a value contiguous along the first axis and not along the second?"""
    places = [at for at in index_exprs([value]) if at != 0]
    along_first = sum(coefficient(at, first.name) == 1 for at in places)
    return along_first > sum(coefficient(at, second.name) == 1 for at in places)


def _limits(*axes: tuple[ir.Axis, int]) -> E | None:
    """The axes' variables lie inside; None where whole tiles always do."""
    condition: E | None = None
    for axis, size in axes:
        if is_nonnegative(0 - axis.extent % size):
            continue
        one = s.lt(s.index(axis.var), s.index(axis.extent))
        condition = one if condition is None else condition & one
    return condition
