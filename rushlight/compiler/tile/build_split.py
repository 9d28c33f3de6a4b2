"""Few rows with many elements: chunks in one grid, their join in the next.

In: a "rows" group whose reductions read only values from outside. Out: a kernel of two grids: each
chunk's result to scratch memory, then the binary tree over chunks and the values per row.
"""

from __future__ import annotations

from rushlight.base.dtypes import int64
from rushlight.compiler.tile.columns import column_block
from rushlight.compiler.tile.coords import linear, strides_of, unravel
from rushlight.compiler.tile.ir import (
    CHUNK,
    Axis,
    Buffer,
    Grid,
    Map,
    Reduce,
    ReduceItem,
    Statement,
    Store,
)
from rushlight.compiler.tile.kernel import Kernel, KernelBuilder
from rushlight.compiler.tile.rows import (
    RowsBuilder,
    is_reduce,
    reduce_kind,
    value_dtype,
    value_reader,
)
from rushlight.ir import scalar as s
from rushlight.ir.node import Node
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import ceildiv, minimum, product


def build_split(builder: KernelBuilder, column: int | None = None) -> Kernel:
    """Chunk results to scratch, then the binary tree over chunks and the per-row values."""
    group = builder.group
    count = product(group.shape[d] for d in group.reduced)
    chunks = ceildiv(count, CHUNK)
    chunk = Axis("chunk", chunks)
    inner = Axis("r", minimum(CHUNK, count - chunk.var * CHUNK))
    at = _split_coordinates(group.shape, group.reduced, chunk.var * CHUNK + inner.var)
    row, rows_total = linear(group.row_axes, strides_of(group.row_shape)), product(group.row_shape)
    access = builder.access()
    first: list[ReduceItem] = []
    rows = RowsBuilder(builder, column)
    for member in [m for m in group.members if is_reduce(m)]:
        kind, dtype = reduce_kind(member), value_dtype(member)
        value = s.cast(access.value(member.src[0], at), dtype)
        partial_dtype = int64 if kind.startswith("arg") else dtype
        partial = builder.scratch(partial_dtype, rows_total * chunks)
        first.append(ReduceItem(kind, value, partial, chunk.var * rows_total + row))
        _join_chunks(rows, member, partial, row, rows_total, chunks)
    for member in group.members:
        if not is_reduce(member):
            rows.row_values([member])
    bodies: list[list[Statement]] = [[Reduce(tuple(rows.lanes), (inner,), tuple(first))], rows.body]
    kept = [rows.axes[d] for d in group.kept if d != column]
    if column is not None:
        columns = column_block(builder, rows.axes[column])
        bodies = [columns.body(body) for body in bodies]
        kept.append(columns.block)
    grids = [Grid((chunk, *kept), tuple(bodies[0])), Grid(tuple(kept), tuple(bodies[1]))]
    return builder.finish(grids)


def _split_coordinates(
    shape: tuple, reduced: tuple[int, ...], flat: int | Expr
) -> tuple[int | Expr, ...]:
    inner = iter(unravel(flat, tuple(shape[d] for d in reduced)))
    kept = {d: Axis(f"d{d}", n).var for d, n in enumerate(shape) if d not in reduced}
    return tuple(kept[d] if d in kept else next(inner) for d in range(len(shape)))


def _join_chunks(
    rows: RowsBuilder,
    member: Node,
    partial: Buffer,
    row: int | Expr,
    rows_total: int | Expr,
    chunks: int | Expr,
) -> None:
    """The second pass of one reduction, added to `rows.body`; `rows.stored` reads its result."""
    builder, group = rows.builder, rows.builder.group
    kind = reduce_kind(member)
    axis = Axis("j", chunks)
    number = len(rows.stored)
    lanes = tuple(rows.lanes)
    if kind.startswith("arg"):
        inside = s.load(partial, axis.var * rows_total + row)
        local_at = s.as_index(inside, 0, CHUNK - 1)
        at = _split_coordinates(group.shape, group.reduced, axis.var * CHUNK + local_at)
        value = s.cast(builder.access().value(member.src[0], at), value_dtype(member))
        best, place = rows.row_tile(f"best{number}", int64)
        rows.body.append(Reduce(lanes, (axis,), (ReduceItem(kind, value, best, place),)))
        winner = s.as_index(s.local(best, place), 0, chunks - 1)
        result = s.local(best, place) * CHUNK + s.load(partial, winner * rows_total + row)
    else:
        total, place = rows.row_tile(f"total{number}", partial.dtype)
        value = s.load(partial, axis.var * rows_total + row)
        rows.body.append(Reduce(lanes, (axis,), (ReduceItem(kind, value, total, place),), "tree"))
        result = s.cast(s.local(total, place), member.dtype)
    rows.stored[member] = value_reader(result)
    if member in builder.outputs:
        store = Store(
            builder.output(member), linear(group.row_axes, strides_of(member.shape)), result
        )
        rows.body.append(Map(lanes, (store,)))
