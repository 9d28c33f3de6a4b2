"""Kernels with reductions: softmax, norms and their gradients, sums over any dims.

A "rows" group works on one row per instance (all reduced elements of one kept coordinate), or,
when the innermost kept axis is the contiguous one, on a block of columns (`columns`). What an
instance does is built by `rows`; few long rows are split into chunks by `build_split`.
"""

from __future__ import annotations

from rushlight.compiler.tile.build_split import build_split
from rushlight.compiler.tile.columns import column_block, contiguous_column
from rushlight.compiler.tile.ir import (
    CHUNK,
    Axis,
    Grid,
    Map,
    Reduce,
    Statement,
)
from rushlight.compiler.tile.kernel import Kernel, KernelBuilder
from rushlight.compiler.tile.merge_axes import merge_axes
from rushlight.compiler.tile.rows import (
    RowsBuilder,
    is_reduce,
)
from rushlight.compiler.tile.split import split_axes
from rushlight.compiler.tile.transform import Substitution, index_exprs, roots_of
from rushlight.ir.node import Node
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import product


def build_rows(builder: KernelBuilder) -> Kernel:
    group = builder.group
    column = contiguous_column(builder)
    count = product(group.shape[d] for d in group.reduced)
    if column is not None and builder.hints(count) > CHUNK and _is_single_pass(builder):
        return build_split(builder, column)
    rows = RowsBuilder(builder, column)
    body = rows.build()
    grid_axes = [rows.axes[d] for d in group.kept if d != column]
    if column is not None:
        columns = column_block(builder, rows.axes[column])
        body = columns.body(body)
        grid_axes.append(columns.block)
    grid = split_axes(Grid(tuple(grid_axes), tuple(body)))
    body = [_merge_each(statement) for statement in _merge_over(rows, list(grid.body))]
    return builder.finish([Grid(grid.axes, tuple(body))])


def _is_single_pass(builder: KernelBuilder) -> bool:
    """Only reductions of values from outside, and what is done to their results."""
    at, axes = builder.group.at, builder.group.axes
    return all(
        at[member] != axes
        and not (is_reduce(member) and any(n in at for n in _reads(builder, member)))
        for member in builder.group.members
    )


def _reads(builder: KernelBuilder, node: Node) -> list[Node]:
    return RowsBuilder(builder, None).inner_sources(node)


def _merge_over(rows: RowsBuilder, body: list[Statement]) -> list[Statement]:
    """Join the reduced axes of the whole body where every index allows it."""
    over = _reduced_axes({axis.name for axis in rows.over}, body)
    exprs = index_exprs(e for statement in body for e in roots_of(statement))
    _, mapping, stands_for = merge_axes(over, [at for at in exprs if isinstance(at, Expr)])
    if not mapping:
        return body
    change = Substitution(mapping, stands_for)
    return [change.statement(statement) for statement in body]


def _merge_each(statement: Statement) -> Statement:
    """Join the axes of one statement: what another one had to cut may be whole here."""
    if isinstance(statement, Map):
        axes = statement.axes
    elif isinstance(statement, Reduce):
        axes = statement.over
    else:
        return statement
    exprs = index_exprs(roots_of(statement))
    _, mapping, stands_for = merge_axes(axes, exprs)
    return Substitution(mapping, stands_for).statement(statement) if mapping else statement


def _reduced_axes(names: set[str], body: list[Statement]) -> list[Axis]:
    """The axes of the reduced dims, as they are now (a cut one is followed by o.. and i..)."""
    found: dict[str, Axis] = {}
    for statement in body:
        axes = statement.axes if isinstance(statement, Map) else ()
        if isinstance(statement, Reduce):
            axes = statement.over
        for axis in axes:
            if any(axis.name == name or axis.name.startswith((f"{name}o", f"{name}i"))
                   for name in names):  # fmt: skip
                found.setdefault(axis.name, axis)
    return list(found.values())
