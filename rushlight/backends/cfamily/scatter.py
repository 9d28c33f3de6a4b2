"""ScatterGrid: updates of one row are applied in ascending order of their index.

A machine without groups goes through the updates. Groups of threads sort them by row first (stably,
so those of one row stay in order); then each row and column is one thread's work: no atomics, and
the same bits every time.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Context, Machine, bound
from rushlight.backends.cfamily.monoid import join
from rushlight.backends.cfamily.sort import Keys, Sorter
from rushlight.base.dtypes import int64
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.transform import Substitution
from rushlight.ir import scalar as s
from rushlight.ir.symint import Expr, Var

Index = int | Expr


def lower_scatter(
    grid: ir.ScatterGrid, machine: Machine, name: str
) -> tuple[list[c.Kernel], list[c.Array]]:
    if machine.threads == 1:
        return [_in_order(grid, machine, name)], []
    sorter = Sorter(Keys((), grid.update, grid.row, False), machine, name)
    return [*sorter.kernels(), _apply(grid, sorter)], [sorter.keys_at, sorter.places_at]


def _in_order(grid: ir.ScatterGrid, machine: Machine, name: str) -> c.Kernel:
    context = Context(machine, name, 1)
    row = Var("row_id", 0, None, "axis")
    at = row * grid.width.extent + grid.width.var
    update = c.Put(grid.dest, at, join(grid.kind, s.load(grid.dest, at), grid.value))
    columns = c.For(grid.width.var, 0, grid.width.extent, 1, (update,), independent=True)
    body = c.For(
        grid.update.var, 0, grid.update.extent, 1, (c.Bind(row, s.as_index(grid.row)), columns)
    )
    return c.Kernel(name, 1, 1, tuple(context.arrays), (body,))


def _apply(grid: ir.ScatterGrid, sorter: Sorter) -> c.Kernel:
    """For the first update of each row, in sorted order: it and all that follow for that row."""
    context = sorter.context("apply")
    count, half = grid.update.extent, sorter.sorted_half()
    order = ir.Axis("order_i", count)
    row, before = (
        s.load(sorter.keys_at, half + order.var),
        s.load(
            sorter.keys_at, half + order.var - 1, s.gt(s.index(order.var), s.const(0, int64)),
            s.const(-1, int64),
        ),
    )  # fmt: skip
    here, acc = s.param("here_row", int64), s.param("new_value", grid.value.dtype)
    at = context.counter("at_order")
    place = s.as_index(here) * grid.width.extent + grid.width.var
    mine = s.load(
        sorter.keys_at, half + s.as_index(at), s.lt(at, context.whole(count)), s.const(-1, int64)
    )
    update = Var("update_id", 0, None, "axis")
    value = Substitution({grid.update.name: update}).expr(grid.value)
    step = (
        c.Bind(update, s.as_index(s.load(sorter.places_at, half + s.as_index(at)))),
        c.Set((("new_value", join(grid.kind, acc, value)),)),
        c.Set((("at_order", at + 1),)),
    )
    fold = (
        c.Let((("here_row", row),)),
        c.Let(
            (("new_value", s.load(grid.dest, place)), ("at_order", context.whole(order.var))), True
        ),
        c.While(s.eq(mine, here), step),
        c.Put(grid.dest, place, acc),
    )

    def body(item: Var) -> Sequence[c.Code]:
        return (*bound((order, grid.width), item), c.If(s.ne(row, before), fold))

    return context.flat_kernel(count * grid.width.extent, body, sorter.passes(False))
