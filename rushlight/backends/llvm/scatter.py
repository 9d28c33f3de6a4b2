"""Scatter grids: each instance owns a range of destination rows and applies all updates to it.

In: a `ScatterGrid`. Out: one kernel function and its launch.
Always true: an instance walks the updates in ascending order and skips the rows of others, so each
row sees its updates in order whatever the number of instances or threads, and no atomics exist.
The price is that every instance reads every row number, so there are only a few for each thread.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from rushlight.backends.llvm.access import OTHER, find_accesses, stride_along
from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.pack import in_vectors
from rushlight.backends.llvm.puts import emit_store
from rushlight.backends.llvm.types import Launch, Scratch
from rushlight.backends.llvm.values import emit_value
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import SCATTER_KINDS, Program, ScatterGrid, Store
from rushlight.ir.scalar import E, add, load, maximum, minimum, mul
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_math import maximum as max_index
from rushlight.ir.symint_math import minimum as min_index

MOST_INSTANCES = 16
_COMBINE = {"sum": add, "prod": mul, "max": maximum, "min": minimum}


def lower_scatter_grid(
    context: Callable[[str], KernelContext], program: Program, grid: ScatterGrid, caps: Caps
) -> tuple[list[Launch], list[Scratch]]:
    """The launch of a scatter."""
    if grid.kind not in SCATTER_KINDS:
        raise ValueError(
            f"{program.name}: ScatterGrid.kind is {grid.kind!r}; allowed are {SCATTER_KINDS}"
        )
    ctx = context("")
    emitter = ScatterEmitter(ctx, grid, instances_for(grid, caps.threads))
    emitter.emit()
    cost = max_index(grid.update.extent * (2 + grid.width.extent // emitter.lanes), 1)
    return [Launch(ctx.function.name, 0, emitter.instances, 0, 1, cost)], []


def instances_for(grid: ScatterGrid, threads: int) -> int | Expr:
    """One range of rows per thread; two when rows are wide, so that uneven ranges even out."""
    wide = not isinstance(grid.width.extent, int) or grid.width.extent >= 64
    most = 1 if threads == 1 else threads * (2 if wide else 1)
    return min_index(grid.rows, min(most, MOST_INSTANCES))


class ScatterEmitter:
    def __init__(self, ctx: KernelContext, grid: ScatterGrid, instances: int | Expr) -> None:
        self.ctx, self.grid, self.instances = ctx, grid, instances
        self.row = Var("scatter_row", 0, None, "axis")
        at = self.row * grid.width.extent + grid.width.var
        self.store = Store(grid.dest, at, _updated(grid, at))
        self.lanes = self._lanes()

    def _lanes(self) -> int:
        """Vectors along the width, unless it is too short or the update lies across it."""
        width, target = self.grid.width, self.ctx.target
        access = find_accesses([self.store.value], [self.store.at])
        lanes = target.vector_bytes // access.lane_bytes(width.name, target)
        short = isinstance(width.extent, int) and 2 * width.extent < lanes
        across = any(stride_along(at, width.name, access.names) is OTHER for at in access.reads)
        return 1 if short or across else lanes

    def emit(self) -> None:
        ctx, grid = self.ctx, self.grid
        with ctx.instances([self.instances]) as (number,):
            b = ctx.builder
            rows = ctx.int_expr(b, grid.rows, {})
            count = ctx.int_expr(b, self.instances, {})
            first = b.udiv(b.mul(number, rows), count)
            stop = b.udiv(b.mul(b.add(number, i64(1)), rows), count)
            owned = b.sub(stop, first)
            updates = ctx.int_expr(b, grid.update.extent, {})
            with ctx.for_range(b, i64(0), updates) as update:
                env = {grid.update.name: update}
                row = emit_value(ctx, b, grid.row, env, Lanes(), {})
                mine = b.icmp_unsigned("<", b.sub(row, first), owned)
                with b.if_then(mine):
                    self._apply({**env, self.row.name: row})

    def _apply(self, env: Env) -> None:
        """One update to one row."""
        ctx, b, width = self.ctx, self.ctx.builder, self.grid.width

        def body(at: ir.Value, mask: ir.Value | None) -> None:
            inner = {**env, width.name: at}
            lanes = Lanes(self.lanes, width if self.lanes > 1 else None, mask)
            known: dict = {}
            value = emit_value(ctx, b, self.store.value, inner, lanes, known)
            emit_store(ctx, b, self.store, inner, lanes, value, known)

        extent = ctx.int_expr(b, width.extent, {})
        if self.lanes > 1:
            in_vectors(ctx, b, extent, self.lanes, body)
            return
        with ctx.for_range(b, i64(0), extent) as at:
            body(at, None)


def _updated(grid: ScatterGrid, at: int | Expr) -> E:
    """The destination's element after the update."""
    if grid.kind == "set":
        return grid.value
    return _COMBINE[grid.kind](load(grid.dest, at), grid.value)
