"""Columns side by side: which kept dim is blocked, how wide, and how a body becomes a block's.

A reduction over rows reads memory in long runs when its instances are blocks of columns.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.compiler.tile.access import load_of
from rushlight.compiler.tile.ir import (
    Axis,
    Buffer,
    Local,
    Statement,
)
from rushlight.compiler.tile.kernel import KernelBuilder, is_interleaved
from rushlight.compiler.tile.merge_axes import coefficient
from rushlight.compiler.tile.rows import (
    COLUMNS,
    is_reduce,
)
from rushlight.compiler.tile.transform import Substitution, index_exprs
from rushlight.ir.node import Node
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import ceildiv, minimum, product

# Without tiles of whole columns a block may be wide: long runs of memory, but enough instances.
MAX_COLUMNS = 1024
MIN_INSTANCES = 4
# Steps in memory that vectors follow: every element, or every second (one part of complex numbers).
NEIGHBOURS = (1, 2)


def _column_width(builder: KernelBuilder, axis: Axis) -> int:
    """Columns per instance; never changes bits."""
    group = builder.group
    if any(group.at[member] == group.axes for member in group.members):
        return COLUMNS
    others = builder.hints(product(group.row_shape)) // max(builder.hints(axis.extent), 1)
    parts = max(1, MIN_INSTANCES // max(others, 1))
    share = -(-builder.hints(axis.extent) // (parts * COLUMNS)) * COLUMNS
    return max(COLUMNS, min(MAX_COLUMNS, share))


class ColumnBlock(Substitution):
    """One instance for `width` columns: d -> cb*width + c in buffers and values, d -> c in tiles.

    Tiles are indexed by the lane c alone and get `width` columns.
    """

    def __init__(self, axis: Axis, width: int) -> None:
        self.column, self.width = axis, width
        self.block = Axis("cb", ceildiv(axis.extent, width))
        self.lane = Axis("c", minimum(width, axis.extent - self.block.var * width))
        whole = self.block.var * width + self.lane.var
        super().__init__({axis.name: whole}, {axis.name: (self.lane,)})
        self._narrowed: dict[Local, Local] = {}

    def body(self, statements: Iterable[Statement]) -> list[Statement]:
        return [self.statement(statement) for statement in statements]

    def place(self, dest: Buffer | Local, at: int | Expr) -> tuple[Buffer | Local, int | Expr]:
        if not isinstance(dest, Local):
            return super().place(dest, at)
        return self._narrow(dest), self._restride(at)

    def _narrow(self, tile: Local) -> Local:
        """The tile with `width` columns where it had all of them."""
        if tile not in self._narrowed:
            *rows, last = tile.shape
            shape = (*rows, self.width if last == self.column.extent else last)
            self._narrowed[tile] = Local(tile.name, tile.dtype, shape)
        return self._narrowed[tile]

    def _restride(self, at: int | Expr) -> int | Expr:
        """Index of a tile with rows of all columns -> the same tile with rows of `width`."""
        rows = at - self.column.var
        if rows == 0:
            return self.lane.var
        return rows // self.column.extent * self.width + self.lane.var


def column_block(builder: KernelBuilder, axis: Axis) -> ColumnBlock:
    return ColumnBlock(axis, _column_width(builder, axis))


def contiguous_column(builder: KernelBuilder) -> int | None:
    """The kept dim along which loads are contiguous, when the reduced ones are not."""
    group = builder.group
    kept = [d for d in group.kept if group.shape[d] != 1]
    reduced = [d for d in group.reduced if group.shape[d] != 1]
    if not kept or not reduced:
        return None
    roots = []
    for member in group.members:
        if is_reduce(member):
            roots.append(_probe(builder, member.src[0], None))
        elif group.at[member] == group.axes:
            parts = member.src if is_interleaved(member) else (member,)
            roots += [_probe(builder, part, part) for part in parts]
    # Whole rows that are written, too, are so along the innermost dim; one result per row is small.
    is_written = any(at == group.axes for at in map(group.at.get, group.members))
    columns = kept[-1:] if is_written else kept[::-1]  # the first of equals wins
    votes, row_votes = dict.fromkeys(columns, 0), 0
    for at in index_exprs(roots):
        along_row, *along = (coefficient(at, f"d{d}") for d in (reduced[-1], *columns))
        if along_row == 0:
            continue  # what does not move is small: it stays in the cache
        for d, step in zip(columns, along, strict=True):
            votes[d] += step in NEIGHBOURS
        row_votes += along_row in NEIGHBOURS and along[0] != 0
    column = max(votes, key=lambda d: votes[d])
    return column if votes[column] > row_votes else None


def _probe(builder: KernelBuilder, node: Node, computed: Node | None) -> E:
    """The expression of a value; points other than `computed` are read as if from memory."""

    def leaf(here: Node, at: tuple, mask: E | None) -> E | None:
        if here.leaf == "buffer" or (here in builder.points and here is not computed):
            return load_of(Buffer("probe", here.dtype, here.numel()), here.shape, at, mask)
        return None

    trial = KernelBuilder(
        builder.group, builder.points, builder.hints, builder.outputs, builder.site_of
    )
    access = trial.access(leaf)
    return access.value(node, builder.group.axes)
