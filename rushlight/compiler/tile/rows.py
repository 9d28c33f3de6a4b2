"""The body of one instance of a "rows" group: its members, stage by stage.

In: the group and the column block it works on. Out: the statements of one row (or of COLUMNS
neighboring columns). A reduction ends a stage, what needs its result belongs to the next:

  stage 0   Map (values reductions share)   Reduce max
  stage 1   Map exp(x - max) -> tile        Reduce sum
  stage 2   Map tile / sum -> y
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rushlight.base.dtypes import DType, int64
from rushlight.compiler.tile.access import load_of
from rushlight.compiler.tile.coords import linear, strides_of
from rushlight.compiler.tile.ir import (
    PARTIALS,
    Axis,
    Local,
    Map,
    Reduce,
    ReduceItem,
    Statement,
    Store,
)
from rushlight.compiler.tile.kernel import KernelBuilder, is_interleaved
from rushlight.compiler.tile.merge_axes import merge_axes
from rushlight.compiler.tile.transform import index_exprs
from rushlight.ir import scalar as s
from rushlight.ir.node import Node, nearest_below
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import product

# Columns per instance that keeps tiles of whole columns: few, so that they fit.
COLUMNS = 64


TILE_BYTES = 1 << 20
# Elements side by side from which on a reduction reads rows as they lie.
LONG_ROW = 64


Reader = Callable[[tuple, "E | None"], E]


def reduce_kind(node: Node) -> str:
    return node.name.strip("_").removeprefix("reduce_")


def value_dtype(node: Node) -> DType:
    """The dtype a reduction folds in: float32 for bfloat16 and float16."""
    return node.src[0].dtype.compute


@dataclass(eq=False)
class RowsBuilder:
    """Builds the body of one instance. `column`: the kept dim that is blocked, or None."""

    builder: KernelBuilder
    column: int | None
    stored: dict[Node, Reader] = field(default_factory=dict)
    body: list[Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        group = self.builder.group
        self.axes = [Axis(f"d{i}", n) for i, n in enumerate(group.shape)]
        self.over = [self.axes[d] for d in group.reduced]
        self.lanes: list[Axis] = [] if self.column is None else [self.axes[self.column]]

    # reading ------------------------------------------------------------------------------------

    def _leaf(self, node: Node, at: tuple, mask: E | None) -> E | None:
        reader = self.stored.get(node)
        if reader is not None:
            return reader(at, mask)
        return self.builder.read(node, at, mask)

    # stages -------------------------------------------------------------------------------------

    def build(self) -> list[Statement]:
        members = self.builder.group.members
        stage = self._stages()
        for number in range(max(stage.values()) + 1):
            here = [m for m in members if stage[m] == number]
            self.row_values([m for m in here if self._is_row(m)])
            reduces = [m for m in here if is_reduce(m)]
            full = [m for m in here if not is_reduce(m) and not self._is_row(m)]
            self._full_values(full, stage)
            self._reduces(reduces)
        return self.body

    def _is_row(self, node: Node) -> bool:
        return not is_reduce(node) and self.builder.group.at[node] != self.builder.group.axes

    def _stages(self) -> dict[Node, int]:
        stage: dict[Node, int] = {}
        for member in self.builder.group.members:
            level = 0
            for source in self.inner_sources(member):
                level = max(level, stage[source] + is_reduce(source))
            stage[member] = level
        return stage

    def inner_sources(self, member: Node) -> list[Node]:
        """The members of the kernel that `member` reads."""
        builder = self.builder
        return nearest_below(
            member, builder.group.at.__contains__,
            lambda node: bool(node.leaf) or node in builder.points,
        )  # fmt: skip

    def row_values(self, members: list[Node]) -> None:
        if not members:
            return
        access = self.builder.access(self._leaf)
        stores: list[Store] = []
        readers: dict[Node, Reader] = {}
        for member in members:
            at = self.builder.group.at[member]
            if not is_interleaved(member):
                value = access.value(member, at)
                readers[member] = self._keep_row(member, member.dtype, value, stores)
            if member in self.builder.outputs:
                stores += self.builder.stores(access, member, at)
        self.body.append(Map(tuple(self.lanes), tuple(stores)))
        self.stored.update(readers)

    def _keep_row(self, node: Node, dtype: DType, value: E, stores: list[Store]) -> Reader:
        tile, at = self.row_tile(f"t{len(self.stored) + len(stores)}", dtype)
        stores.append(Store(tile, at, value))
        return lambda _, mask: s.local(tile, at)

    def row_tile(self, name: str, dtype: DType) -> tuple[Local, int | Expr]:
        if self.column is None:
            return Local(name, dtype, (1,)), 0
        axis = self.axes[self.column]
        return Local(name, dtype, (axis.extent,)), axis.var

    def _full_values(self, members: list[Node], stage: dict[Node, int]) -> None:
        access = self.builder.access(self._leaf)
        stores: list[Store] = []
        readers: dict[Node, Reader] = {}
        for member in members:
            if is_interleaved(member):
                stores += self.builder.stores(access, member, self._at())
                continue
            value = access.value(member, self._at())
            if member in self.builder.outputs:
                readers[member] = self._store_output(member, value, stores)
            elif self._is_read_later(member, stage) and self._fits_tile(member.dtype):
                tile, at = self._full_tile(f"f{len(self.stored) + len(stores)}", member.dtype)
                stores.append(Store(tile, at, value))
                readers[member] = self._tile_reader(tile)
        if stores:
            self.body.append(Map((*self.over, *self.lanes), tuple(stores)))
            self.stored.update(readers)

    def _store_output(self, node: Node, value: E, stores: list[Store]) -> Reader:
        buffer = self.builder.output(node)
        stores.append(Store(buffer, linear(self._at(), strides_of(node.shape)), value))
        return lambda at, mask: load_of(buffer, node.shape, at, mask)

    def _at(self) -> tuple:
        return self.builder.group.axes

    def _is_read_later(self, node: Node, stage: dict[Node, int]) -> bool:
        """By a reduction of its own stage, or by anything of a later one."""
        return any(
            node in self.inner_sources(other) and (stage[other] > stage[node] or is_reduce(other))
            for other in self.builder.group.members
        )

    def _fits_tile(self, dtype: DType) -> bool:
        columns = 1 if self.column is None else COLUMNS
        count = self.builder.hints(product(axis.extent for axis in self.over))
        return count * columns * dtype.itemsize <= TILE_BYTES

    def _full_tile(self, name: str, dtype: DType) -> tuple[Local, int | Expr]:
        axes = [*self.over, *self.lanes]
        shape = tuple(axis.extent for axis in axes)
        # A row value may read the one element there is along an axis of size 1.
        at = [0 if axis.extent == 1 else axis.var for axis in axes]
        return Local(name, dtype, shape), linear(at, strides_of(shape))

    def _tile_reader(self, tile: Local) -> Reader:
        """Reads a full tile; a value per row may, where the reduced dims have size 1."""
        dims = (*self.builder.group.reduced, *(() if self.column is None else (self.column,)))
        strides = strides_of(tile.shape)
        return lambda at, mask: s.local(tile, linear([at[d] for d in dims], strides))

    def _reduces(self, members: list[Node]) -> None:
        if not members:
            return
        access = self.builder.access(self._leaf)
        items = []
        outputs: list[Store] = []
        readers: dict[Node, Reader] = {}
        for member in members:
            dtype = value_dtype(member)
            value = s.cast(access.value(member.src[0], self._at()), dtype)
            kind = reduce_kind(member)
            tile, at = self.row_tile(
                f"r{len(self.stored) + len(items)}", int64 if kind.startswith("arg") else dtype
            )
            items.append(ReduceItem(kind, value, tile, at))
            result = s.cast(s.local(tile, at), member.dtype)
            readers[member] = value_reader(result)
            if member in self.builder.outputs:
                place = linear(self.builder.group.row_axes, strides_of(member.shape))
                outputs.append(Store(self.builder.output(member), place, result))
        over, extra = self._flat_domain(items)
        self.body.append(Reduce(tuple(self.lanes), over, tuple(extra)))
        if outputs:
            self.body.append(Map(tuple(self.lanes), tuple(outputs)))
        self.stored.update(readers)

    def _flat_domain(self, items: list[ReduceItem]) -> tuple[tuple[Axis, ...], list[ReduceItem]]:
        """Reduce over one axis where the operand's dims do not merge: stage it in a flat tile,
        unless memory has whole blocks of partials side by side."""
        roots = [e for item in items for e in (item.value, s.index(item.at))]
        merged, _, _ = merge_axes(self.over, index_exprs(roots))
        if len(merged) <= 1 or self.column is not None or _has_long_rows(merged[-1]):
            return tuple(self.over), items
        if not all(self._fits_tile(item.value.dtype) for item in items):
            return tuple(self.over), items
        flat = Axis("flat", product(axis.extent for axis in self.over))
        stores, staged = [], []
        for number, item in enumerate(items):
            tile, at = self._full_tile(f"s{len(self.stored)}_{number}", item.value.dtype)
            stores.append(Store(tile, at, item.value))
            staged.append(ReduceItem(item.kind, s.local(tile, flat.var), item.dest, item.at))
        self.body.append(Map(tuple(self.over), tuple(stores)))
        return (flat,), staged


def _has_long_rows(axis: Axis) -> bool:
    return isinstance(axis.extent, int) and axis.extent >= LONG_ROW and not axis.extent % PARTIALS


def is_reduce(node: Node) -> bool:
    return node.op is not None and node.op.kind == "reduce"


def value_reader(value: E) -> Reader:
    return lambda _, mask: value
