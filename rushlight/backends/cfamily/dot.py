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
from rushlight.backends.cfamily.context import Context, Index, Machine, bound
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.transform import coefficient, index_exprs
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Var, ceildiv, is_nonnegative, minimum, product


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
    return [_Dot(grid, schedule, context).kernel()], context.scratch


class _Dot:
    def __init__(self, grid: ir.DotGrid, schedule: Schedule, context: Context) -> None:
        self.grid, self.schedule, self.context = grid, schedule, context
        dtype = grid.acc_dtype
        self.a_tile, _ = context.array("a", dtype, schedule.bm * schedule.bk)
        self.b_tile, _ = context.array("b", dtype, schedule.bk * schedule.bn)
        self.acc = context.private("acc", dtype, schedule.rm * schedule.rn)
        self.m0, self.n0 = Var("first_m", 0, None, "axis"), Var("first_n", 0, None, "axis")
        self.k0 = Var("first_k", 0, grid.k.extent, "axis")
        self.row = ir.Axis("block_row", schedule.rows)
        self.column = ir.Axis("block_column", schedule.columns)

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
            *(self._in_registers() if context.threads > 1 else self._in_memory()),
        )
        return context.kernel(body, product(axis.extent for axis in lead), instance)

    # the loop over k ----------------------------------------------------------------------------

    def _in_registers(self) -> c.Block:
        """Each thread has one block."""
        binds = bound((self.row, self.column), c.THREAD)
        zero = self._each(lambda r, n: (c.Put(self.acc, self._cell(r, n), self._zero()),))
        pieces = (*self._stage(), c.Barrier(), *self._multiply(), c.Barrier())
        return (*binds, *zero, self._over_k(pieces), *self._each(self._store))

    def _in_memory(self) -> c.Block:
        """One thread has all blocks, one after another."""
        plan = self.schedule
        blocks = (self.row, self.column)
        size = plan.bm * plan.bn
        memory, _ = self.context.array("out", self.grid.acc_dtype, size)
        cell = ir.Axis("out_cell", size)
        zero = self.context.nest((cell,), lambda: (c.Put(memory, cell.var, self._zero()),), True)
        start = (self.row.var * plan.columns + self.column.var) * plan.rm * plan.rn

        def read() -> c.Block:
            return self._each(
                lambda r, n: (
                    c.Put(self.acc, self._cell(r, n), s.load(memory, start + self._cell(r, n))),
                )
            )

        def write() -> c.Block:
            return self._each(
                lambda r, n: (
                    c.Put(memory, start + self._cell(r, n), s.load(self.acc, self._cell(r, n))),
                )
            )

        turn = self.context.nest(blocks, lambda: (*read(), *self._multiply(), *write()))
        last = self.context.nest(blocks, lambda: (*read(), *self._each(self._store)))
        return (*zero, self._over_k((*self._stage(), *turn)), *last)

    def _over_k(self, body: Sequence[c.Code]) -> c.For:
        return c.For(self.k0, 0, self.grid.k.extent, self.schedule.bk, tuple(body))

    # pieces -------------------------------------------------------------------------------------

    def _stage(self) -> c.Block:
        grid, plan = self.grid, self.schedule
        k_left = grid.k.extent - self.k0
        row = (grid.m, self.m0, plan.bm, grid.m.extent - self.m0)
        piece = (grid.k, self.k0, plan.bk, k_left)
        column = (grid.n, self.n0, plan.bn, grid.n.extent - self.n0)
        return (
            *self._stage_one(self.a_tile, grid.a, row, piece, plan.bk),
            *self._stage_one(self.b_tile, grid.b, piece, column, plan.bn),
        )

    def _stage_one(
        self, tile: c.Array, value: E, outer: tuple, inner: tuple, pitch: int
    ) -> c.Block:
        """tile[i][j] = value at (first outer + i, first inner + j), where there is one."""
        context = self.context
        (axis_i, first_i, size_i, left_i), (axis_j, first_j, size_j, left_j) = outer, inner
        value = context.expr(s.cast(value, tile.dtype))
        alone = context.threads == 1
        i = context.axis("i", minimum(size_i, left_i) if alone else size_i)
        j = context.axis("j", minimum(size_j, left_j) if alone else size_j)
        store: tuple[c.Code, ...] = (
            c.Bind(axis_i.var, first_i + i.var),
            c.Bind(axis_j.var, first_j + j.var),
            c.Put(tile, i.var * pitch + j.var, value),
        )
        limits = None if alone else _limits((axis_i, size_i), (axis_j, size_j))
        if limits is not None:
            store = (*store[:2], c.If(limits, store[2:]))
        axes = (j, i) if self._runs_along(value, axis_i, axis_j) else (i, j)
        return context.spread(axes, lambda: store)

    def _runs_along(self, value: E, first: ir.Axis, second: ir.Axis) -> bool:
        """Is the operand contiguous along the first axis and not along the second?"""
        places = [at for at in index_exprs([value]) if at != 0]
        along_first = sum(coefficient(at, first.name) == 1 for at in places)
        along_second = sum(coefficient(at, second.name) == 1 for at in places)
        return along_first > along_second

    def _multiply(self) -> c.Block:
        """acc += A piece * B piece, k ascending."""
        plan, k = self.schedule, Var("k_i", 0, self.schedule.bk - 1, "axis")

        def step(r: Var, n: Var) -> c.Block:
            row, column = self.row.var * plan.rm + r, self.column.var * plan.rn + n
            a = s.load(self.a_tile, row * plan.bk + k)
            b = s.load(self.b_tile, k * plan.bn + column)
            acc = s.load(self.acc, self._cell(r, n))
            is_float = self.grid.acc_dtype.is_floating_point
            return (
                c.Put(self.acc, self._cell(r, n), s.fma(a, b, acc) if is_float else acc + a * b),
            )

        stop = minimum(plan.bk, self.grid.k.extent - self.k0)
        return (c.For(k, 0, stop, 1, self._each(step)),)

    def _each(self, body: Callable[[Var, Var], c.Block]) -> c.Block:
        """Every output of a block."""
        plan = self.schedule
        r, n = Var("block_r", 0, plan.rm - 1, "axis"), Var("block_n", 0, plan.rn - 1, "axis")
        inner = c.For(n, 0, plan.rn, 1, body(r, n), independent=True, unroll=plan.rn <= 4)
        return (c.For(r, 0, plan.rm, 1, (inner,), unroll=True),)

    def _cell(self, r: Index, n: Index) -> Index:
        return r * self.schedule.rn + n

    def _zero(self) -> E:
        return s.const(0, self.grid.acc_dtype)

    def _store(self, r: Var, n: Var) -> c.Block:
        """The epilogue of one output, where it lies inside."""
        grid, plan = self.grid, self.schedule
        acc = s.load(self.acc, self._cell(r, n))
        stores = tuple(
            c.Put(
                store.dest, self.context.index(store.at), self.context.expr(store.value, acc),
                None if store.mask is None else self.context.expr(store.mask, acc),
            )
            for store in grid.stores
        )  # fmt: skip
        binds = (
            c.Bind(grid.m.var, self.m0 + self.row.var * plan.rm + r),
            c.Bind(grid.n.var, self.n0 + self.column.var * plan.rn + n),
        )
        inside = _limits((grid.m, plan.bm), (grid.n, plan.bn))
        return (*binds, *(stores and _guarded(inside, c.Puts(stores))))


def _guarded(condition: E | None, code: c.Code) -> c.Block:
    return (code,) if condition is None else (c.If(condition, (code,)),)


def _limits(*axes: tuple[ir.Axis, int]) -> E | None:
    """The axes' variables lie inside; None where whole tiles always do."""
    condition: E | None = None
    for axis, size in axes:
        if is_nonnegative(0 - axis.extent % size):
            continue
        one = s.lt(s.index(axis.var), s.index(axis.extent))
        condition = one if condition is None else condition & one
    return condition
