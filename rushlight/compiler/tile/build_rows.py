"""Kernels with reductions: softmax, norms and their gradients, sums over any dims.

A "rows" group works on one row per instance (all reduced elements of one kept coordinate), or,
when the innermost kept axis is the contiguous one, on a block of COLUMNS neighbouring columns.
Its members fall into stages: a reduction ends a stage, what needs its result belongs to the next.

  stage 0   Map (values reductions share)   Reduce max
  stage 1   Map exp(x - max) -> tile        Reduce sum
  stage 2   Map tile / sum -> y
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rushlight.base.dtypes import DType, int64
from rushlight.compiler.tile.access import load_of
from rushlight.compiler.tile.coords import linear, strides_of, unravel
from rushlight.compiler.tile.ir import (
    CHUNK,
    Axis,
    Buffer,
    Grid,
    Local,
    Map,
    Reduce,
    ReduceItem,
    Statement,
    Store,
)
from rushlight.compiler.tile.kernel import Kernel, KernelBuilder, is_interleaved
from rushlight.compiler.tile.split import split_axes
from rushlight.compiler.tile.transform import (
    Substitution,
    coefficient,
    index_exprs,
    merge_axes,
    roots_of,
)
from rushlight.ir import scalar as s
from rushlight.ir.node import Node
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, ceildiv, minimum, product

# Columns per instance: with tiles of whole columns few, so that they fit; else long runs of memory.
COLUMNS = 64
MAX_COLUMNS = 1024
MIN_INSTANCES = 4
TILE_BYTES = 1 << 20

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
            self._row_values([m for m in here if self._is_row(m)])
            reduces = [m for m in here if _is_reduce(m)]
            full = [m for m in here if not _is_reduce(m) and not self._is_row(m)]
            self._full_values(full, stage)
            self._reduces(reduces)
        return self.body

    def _is_row(self, node: Node) -> bool:
        return not _is_reduce(node) and self.builder.group.at[node] != self.builder.group.axes

    def _stages(self) -> dict[Node, int]:
        stage: dict[Node, int] = {}
        for member in self.builder.group.members:
            level = 0
            for source in self._inner_sources(member):
                level = max(level, stage[source] + _is_reduce(source))
            stage[member] = level
        return stage

    def _inner_sources(self, member: Node) -> list[Node]:
        at = self.builder.group.at
        found: dict[Node, None] = {}
        seen: set[Node] = set()
        stack = list(member.src)
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in at:
                found[node] = None
            elif not node.leaf and node not in self.builder.points:
                stack.extend(node.src)
        return list(found)

    def _row_values(self, members: list[Node]) -> None:
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
        tile, at = self._row_tile(f"t{len(self.stored) + len(stores)}", dtype)
        stores.append(Store(tile, at, value))
        return lambda _, mask: s.local(tile, at)

    def _row_tile(self, name: str, dtype: DType) -> tuple[Local, int | Expr]:
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
            node in self._inner_sources(other) and (stage[other] > stage[node] or _is_reduce(other))
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
            tile, at = self._row_tile(
                f"r{len(self.stored) + len(items)}", int64 if kind.startswith("arg") else dtype
            )
            items.append(ReduceItem(kind, value, tile, at))
            result = s.cast(s.local(tile, at), member.dtype)
            readers[member] = _value_reader(result)
            if member in self.builder.outputs:
                place = linear(self.builder.group.row_axes, strides_of(member.shape))
                outputs.append(Store(self.builder.output(member), place, result))
        over, extra = self._flat_domain(items)
        self.body.append(Reduce(tuple(self.lanes), over, tuple(extra)))
        if outputs:
            self.body.append(Map(tuple(self.lanes), tuple(outputs)))
        self.stored.update(readers)

    def _flat_domain(self, items: list[ReduceItem]) -> tuple[tuple[Axis, ...], list[ReduceItem]]:
        """Reduce over one axis where the operand's dims do not merge: stage it in a flat tile."""
        roots = [e for item in items for e in (item.value, s.index(item.at))]
        merged, _, _ = merge_axes(self.over, index_exprs(roots))
        if len(merged) <= 1 or self.column is not None:
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


def build_rows(builder: KernelBuilder) -> Kernel:
    group = builder.group
    column = _contiguous_column(builder)
    count = product(group.shape[d] for d in group.reduced)
    if column is not None and builder.hints(count) > CHUNK and _is_single_pass(builder):
        return build_split(builder, column)
    rows = RowsBuilder(builder, column)
    body = rows.build()
    grid_axes = [rows.axes[d] for d in group.kept if d != column]
    if column is not None:
        axis = rows.axes[column]
        width = _column_width(builder, axis)
        block = Axis("cb", ceildiv(axis.extent, width))
        lane = Axis("c", minimum(width, axis.extent - block.var * width))
        # Tiles are indexed by the lane alone, buffers by the whole column.
        body = _split_column(body, axis, block, lane, width)
        grid_axes.append(block)
    grid = split_axes(Grid(tuple(grid_axes), tuple(body)))
    return builder.finish([Grid(grid.axes, tuple(_merge_over(rows, list(grid.body))))])


def _is_single_pass(builder: KernelBuilder) -> bool:
    """Only reductions of values from outside, and what is done to their results."""
    at, axes = builder.group.at, builder.group.axes
    return all(
        at[member] != axes
        and not (_is_reduce(member) and any(n in at for n in _reads(builder, member)))
        for member in builder.group.members
    )


def _reads(builder: KernelBuilder, node: Node) -> list[Node]:
    return RowsBuilder(builder, None)._inner_sources(node)


def _column_width(builder: KernelBuilder, axis: Axis) -> int:
    """Columns per instance; never changes bits."""
    group = builder.group
    if any(group.at[member] == group.axes for member in group.members):
        return COLUMNS
    others = builder.hints(product(group.row_shape)) // max(builder.hints(axis.extent), 1)
    parts = max(1, MIN_INSTANCES // max(others, 1))
    share = -(-builder.hints(axis.extent) // (parts * COLUMNS)) * COLUMNS
    return max(COLUMNS, min(MAX_COLUMNS, share))


def _merge_over(rows: RowsBuilder, body: list[Statement]) -> list[Statement]:
    """Join the reduced axes of the whole body where every index allows it."""
    over = _reduced_axes({axis.name for axis in rows.over}, body)
    exprs = index_exprs(e for statement in body for e in roots_of(statement))
    _, mapping, stands_for = merge_axes(over, [at for at in exprs if isinstance(at, Expr)])
    if not mapping:
        return body
    change = Substitution(mapping, stands_for)
    return [change.statement(statement) for statement in body]


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


def _split_column(
    body: list[Statement], axis: Axis, block: Axis, lane: Axis, width: int
) -> list[Statement]:
    """d -> cb*width + c in buffers and values, d -> c in tiles (which get `width` columns)."""
    whole = Substitution({axis.name: block.var * width + lane.var}, {axis.name: (lane,)})
    tiles: dict[Local, Local] = {}

    class Split(Substitution):
        def _rebuild(self, node: E) -> E:
            if node.op == "local":
                tile, at = node.meta
                return s.local(narrow(tile), local_only.index(at))
            return super()._rebuild(node)

        def store(self, store: Store) -> Store:
            if not isinstance(store.dest, Local):
                return super().store(store)
            return Store(narrow(store.dest), local_only.index(store.at), self.expr(store.value))

        def item(self, item: ReduceItem) -> ReduceItem:
            if not isinstance(item.dest, Local):
                return super().item(item)
            return ReduceItem(
                item.kind, self.expr(item.value), narrow(item.dest), local_only.index(item.at)
            )

    def narrow(tile: Local) -> Local:
        if tile not in tiles:
            shape = tuple(
                width if n == axis.extent and i == len(tile.shape) - 1 else n
                for i, n in enumerate(tile.shape)
            )
            tiles[tile] = Local(tile.name, tile.dtype, shape)
        return tiles[tile]

    class LocalOnly(Substitution):
        def index(self, at: int | Expr) -> int | Expr:
            return _restride(at, axis, lane, width)

    local_only = LocalOnly({})
    split = Split(whole.mapping, whole.axes)
    return [split.statement(statement) for statement in body]


def _restride(at: int | Expr, axis: Axis, lane: Axis, width: int) -> int | Expr:
    """Index of a tile with rows of axis.extent -> the same tile with rows of `width`."""
    rows = at - axis.var
    if rows == 0:
        return lane.var
    quotient = rows // axis.extent
    return quotient * width + lane.var


def _contiguous_column(builder: KernelBuilder) -> int | None:
    """The kept dim along which loads are contiguous, when the reduced ones are not."""
    group = builder.group
    kept = [d for d in group.kept if group.shape[d] != 1]
    reduced = [d for d in group.reduced if group.shape[d] != 1]
    if not kept or not reduced:
        return None
    roots = []
    for member in group.members:
        if _is_reduce(member):
            roots.append(_probe(builder, member.src[0], None))
        elif group.at[member] == group.axes:
            parts = member.src if is_interleaved(member) else (member,)
            roots += [_probe(builder, part, part) for part in parts]
    row_votes = column_votes = 0
    for at in index_exprs(roots):
        row_votes += coefficient(at, f"d{reduced[-1]}") == 1
        column_votes += coefficient(at, f"d{kept[-1]}") == 1
    return kept[-1] if column_votes > row_votes else None


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


def _is_reduce(node: Node) -> bool:
    return node.op is not None and node.op.kind == "reduce"


def _value_reader(value: E) -> Reader:
    return lambda _, mask: value


# few rows, many elements: chunks in one grid, their join in the next -----------------------------


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
    for member in [m for m in group.members if _is_reduce(m)]:
        kind, dtype = reduce_kind(member), value_dtype(member)
        value = s.cast(access.value(member.src[0], at), dtype)
        partial_dtype = int64 if kind.startswith("arg") else dtype
        partial = builder.scratch(partial_dtype, rows_total * chunks)
        first.append(ReduceItem(kind, value, partial, chunk.var * rows_total + row))
        _join_chunks(rows, member, partial, row, rows_total, chunks)
    for member in group.members:
        if not _is_reduce(member):
            rows._row_values([member])
    bodies: list[list[Statement]] = [[Reduce(tuple(rows.lanes), (inner,), tuple(first))], rows.body]
    kept = [rows.axes[d] for d in group.kept if d != column]
    if column is not None:
        axis = rows.axes[column]
        width = _column_width(builder, axis)
        block = Axis("cb", ceildiv(axis.extent, width))
        lane = Axis("c", minimum(width, axis.extent - block.var * width))
        bodies = [_split_column(body, axis, block, lane, width) for body in bodies]
        kept.append(block)
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
        best, place = rows._row_tile(f"best{number}", int64)
        rows.body.append(Reduce(lanes, (axis,), (ReduceItem(kind, value, best, place),)))
        winner = s.as_index(s.local(best, place), 0, chunks - 1)
        result = s.local(best, place) * CHUNK + s.load(partial, winner * rows_total + row)
    else:
        total, place = rows._row_tile(f"total{number}", partial.dtype)
        value = s.load(partial, axis.var * rows_total + row)
        rows.body.append(Reduce(lanes, (axis,), (ReduceItem(kind, value, total, place),), "tree"))
        result = s.cast(s.local(total, place), member.dtype)
    rows.stored[member] = _value_reader(result)
    if member in builder.outputs:
        store = Store(
            builder.output(member), linear(group.row_axes, strides_of(member.shape)), result
        )
        rows.body.append(Map(lanes, (store,)))
