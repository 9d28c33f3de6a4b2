"""Kernels with an algorithm of their own: contraction, scan, sort, scatter."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.base.dtypes import DType, bfloat16, float16, int64
from rushlight.compiler.graph.in_range import is_in_range
from rushlight.compiler.tile.build_map import piece_of
from rushlight.compiler.tile.coords import linear, strides_of, unravel
from rushlight.compiler.tile.ir import (
    AnyGrid,
    Axis,
    Buffer,
    DotGrid,
    Grid,
    Map,
    Scan,
    ScatterGrid,
    Sort,
    Store,
)
from rushlight.compiler.tile.kernel import Kernel, KernelBuilder
from rushlight.compiler.tile.merge_axes import coefficient, merge_axes
from rushlight.compiler.tile.rows import COLUMNS
from rushlight.compiler.tile.transform import Substitution, index_exprs, store_roots
from rushlight.ir import scalar as s
from rushlight.ir.node import Node
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import ceildiv, minimum, product

NARROW = (bfloat16, float16)
# Fewer keys than these stay in the first cache, however they lie.
MANY_KEYS = 1 << 12
# Keys of more operations than these are computed before the sort.
LONG_KEY = 32


def build_dot(builder: KernelBuilder) -> Kernel:
    """acc[batch, m, n] and what the group does to each element of it."""
    group = builder.group
    dot = group.members[0]
    acc_dtype = dot.dtype.compute
    left, right = dot.src
    axes = [Axis(f"d{i}", n) for i, n in enumerate(dot.shape)]
    *batch, m, n = axes
    k = Axis("k", left.shape[-1])
    lead = tuple(axis.var for axis in batch)
    operands = builder.access()
    a = operands.value(left, (*lead, m.var, k.var))
    b = operands.value(right, (*lead, k.var, n.var))
    a, b = _narrow(a, b)
    result = s.cast(s.acc(acc_dtype), dot.dtype)

    def leaf(node: Node, at: tuple, mask: E | None) -> E | None:
        return result if node is dot else builder.read(node, at, mask)

    epilogue = builder.access(leaf)
    stores = []
    for member in group.members:
        at = group.at[member]
        if member in builder.outputs:
            stores += builder.stores(epilogue, member, at)
        else:
            epilogue.value(member, at)
    slides = dot.attrs if dot.name == "dot_sliding" else None
    grid = DotGrid(tuple(batch), m, n, k, a, b, acc_dtype, tuple(stores), slides)
    return builder.finish([_merge_batch(grid)])


def _narrow(a: E, b: E) -> tuple[E, E]:
    """Operands that were both cast up from one narrow float, as they were: a product of two is
    exact, and a machine may have instructions for it. The sums are those of the wide dtype."""
    for dtype in NARROW:
        found = _before_cast(a, dtype), _before_cast(b, dtype)
        if None not in found:
            return found  # type: ignore[return-value]
    return a, b


def _before_cast(e: E, dtype: DType) -> E | None:
    """The value of a narrow dtype that `e` is the cast of, with zeros around it perhaps."""
    if e.op == "cast" and e.args[0].dtype is dtype:
        return e.args[0]
    if e.op != "select" or e.args[2] is not s.const(0, e.dtype):
        return None
    inside = _before_cast(e.args[1], dtype)
    return None if inside is None else s.select(e.args[0], inside, s.const(0, dtype))


def _merge_batch(grid: DotGrid) -> DotGrid:
    if len(grid.batch) < 2:
        return grid
    roots = (grid.a, grid.b, *store_roots(grid.stores))
    _, mapping, stands_for = merge_axes(grid.batch, index_exprs(roots))
    return Substitution(mapping, stands_for).grid(grid) if mapping else grid  # type: ignore[return-value]


def build_scan(builder: KernelBuilder) -> Kernel:
    group = builder.group
    (node,) = group.members
    dim = node.attrs[0]
    axes = [Axis(f"d{i}", n) for i, n in enumerate(node.shape)]
    over = axes[dim]
    kept = [axis for i, axis in enumerate(axes) if i != dim]
    at = tuple(axis.var for axis in axes)
    kind = node.name.removeprefix("scan_")
    value = builder.access().value(node.src[0], at)
    value = s.cast(value, node.src[0].dtype.compute)
    place = linear(at, strides_of(node.shape))
    inner: tuple[Axis, ...] = ()
    lanes = next((i for i in reversed(range(len(axes))) if i != dim and node.shape[i] != 1), None)
    in_columns = lanes is not None and lanes > dim and coefficient(place, axes[lanes].name) == 1
    dest = builder.output(node)
    if dest.dtype is not value.dtype and not kind.startswith("arg"):
        return _scan_in_compute_dtype(builder, node, kept, over, kind, value, place)
    statement = Scan(inner, over, kind, value, dest, place)
    if not in_columns:
        return builder.finish([Grid(tuple(kept), (statement,))])
    assert lanes is not None
    axis = axes[lanes]
    block = Axis("cb", ceildiv(axis.extent, COLUMNS))
    lane = Axis("c", minimum(COLUMNS, axis.extent - block.var * COLUMNS))
    change = Substitution({axis.name: block.var * COLUMNS + lane.var})
    moved = Scan((lane,), over, kind, change.expr(value), dest, change.index(place))
    outer = [block if a is axis else a for a in kept]
    return builder.finish([Grid(tuple(outer), (moved,))])


def _scan_in_compute_dtype(
    builder: KernelBuilder,
    node: Node,
    kept: list[Axis],
    over: Axis,
    kind: str,
    value: E,
    place: int | Expr,
) -> Kernel:
    """bfloat16 and float16: the running value stays float32, each result is rounded once."""
    wide = builder.scratch(value.dtype, product(node.shape))
    scan = Scan((), over, kind, value, wide, place)
    flat = Axis("flat", product(node.shape))
    narrow = Store(builder.output(node), flat.var, s.cast(s.load(wide, flat.var), node.dtype))
    from_wide = _rounding_grid(flat, narrow)
    return builder.finish([Grid(tuple(kept), (scan,)), from_wide])


def _rounding_grid(flat: Axis, store: Store) -> Grid:
    return Grid((), (Map((flat,), (store,)),))


def build_sort(builder: KernelBuilder) -> Kernel:
    (node,) = builder.group.members
    dim, descending = node.attr("dim"), node.attr("descending")
    axes = [Axis(f"d{i}", n) for i, n in enumerate(node.src[0].shape)]
    at = tuple(axis.var for axis in axes)
    key = s.cast(builder.access().value(node.src[0], at), node.src[0].dtype.compute)
    # Fewer positions are stored than there are keys: the variable's bounds are those of the result.
    stored = tuple(Axis(axis.name, n).var for axis, n in zip(axes, node.shape, strict=True))
    place = linear(stored, strides_of(node.shape))
    first = None if node.shape == node.src[0].shape else node.shape[dim]
    kept = [axis for i, axis in enumerate(axes) if i != dim]
    out = builder.output(node)
    many = builder.hints(node.src[0].numel()) >= MANY_KEYS
    if many and len(s.topological((key,))) > LONG_KEY:
        # By vectors: the sort would compute one key after the other.
        keys, row = _rows(builder, key.dtype, kept, axes[dim])
        made = Grid((*kept, axes[dim]), (Map((), (Store(keys, row, key),)),))
        statement = Sort(axes[dim], s.load(keys, row), bool(descending), out, place, first)
        return builder.finish([made, Grid(tuple(kept), (statement,))])
    if not (many and _is_read_across(key, axes[dim], kept)):
        statement = Sort(axes[dim], key, bool(descending), out, place, first)
        return builder.finish([Grid(tuple(kept), (statement,))])
    # Keys and results are turned in blocks: the sort would fetch a line of the cache for each.
    over, found = axes[dim], Axis(axes[dim].name, node.shape[dim])
    keys, row = _rows(builder, key.dtype, kept, over)
    turned = Grid(tuple(kept), (Map((over,), (Store(keys, row, key),)),))
    results, to = _rows(builder, int64, kept, found)
    statement = Sort(over, s.load(keys, row), bool(descending), results, to, first)
    back = Map((found,), (Store(out, place, s.load(results, to)),))
    return builder.finish([turned, Grid(tuple(kept), (statement,)), Grid(tuple(kept), (back,))])


def _rows(
    builder: KernelBuilder, dtype: DType, kept: Sequence[Axis], over: Axis
) -> tuple[Buffer, int | Expr]:
    """Scratch with `over` innermost, and the place of an element in it."""
    order = (*kept, over)
    extents = tuple(axis.extent for axis in order)
    at = linear(tuple(axis.var for axis in order), strides_of(extents))
    return builder.scratch(dtype, product(extents)), at


def _is_read_across(key: E, over: Axis, kept: Sequence[Axis]) -> bool:
    """Are elements side by side in memory those of different rows?"""
    steps = [[coefficient(at, axis.name) for axis in (over, *kept)] for at in index_exprs([key])]
    return any(along not in (0, 1) and 1 in others for along, *others in steps)


def build_scatter(builder: KernelBuilder, donatable: frozenset[Node]) -> Kernel:
    """Copy the base, then apply the updates in order of their index."""
    (node,) = builder.group.members
    base, update, *indices = node.src
    rank = len(indices)
    wide = node.dtype.compute
    grids: list[AnyGrid] = []
    in_place = base in donatable and wide is node.dtype
    dest = builder.output(node, "inout" if in_place else "out")
    if wide is not node.dtype:
        dest = builder.scratch(wide, node.numel())
    if in_place:
        builder.inplace.append((node, base))
    elif wide is node.dtype:
        grids += piece_of(builder, 0, base, node, [0] * node.ndim, [1] * node.ndim)
    else:
        grids.append(_flat_copy(builder, base, node, dest))
    grids.append(_updates(builder, node, update, indices, rank, dest))
    if dest is not builder.output(node):
        flat = Axis("rounded", node.numel())
        value = s.cast(s.load(dest, flat.var), node.dtype)
        grids.append(_rounding_grid(flat, Store(builder.output(node), flat.var, value)))
    return builder.finish(grids)


def _flat_copy(builder: KernelBuilder, base: Node, node: Node, dest: object) -> Grid:
    axes = tuple(Axis(f"w{i}", n) for i, n in enumerate(node.shape))
    at = tuple(axis.var for axis in axes)
    value = s.cast(builder.access().value(base, at), node.dtype.compute)
    return Grid((), (Map(axes, (Store(dest, linear(at, strides_of(node.shape)), value),)),))  # type: ignore[arg-type]


def _updates(
    builder: KernelBuilder, node: Node, update: Node, indices: list[Node], rank: int, dest: object
) -> ScatterGrid:
    places = indices[0].shape
    axis = Axis("u", product(places))
    at = unravel(axis.var, places)
    access = builder.access()
    row: E | None = None
    for index, size in zip(indices, node.shape, strict=False):
        value = s.cast(access.value(index, at), int64)
        if not is_in_range(index, size):
            value = s.check_index(value, size, builder.site_of(node))
        row = value if row is None else row * s.index(size) + value
    assert row is not None
    inner = node.shape[rank:]
    width = Axis("w", product(inner))
    value = access.value(update, (*at, *unravel(width.var, inner)))
    value = s.cast(value, node.dtype.compute)
    rows = product(node.shape[:rank])
    return ScatterGrid(axis, width, rows, row, value, node.attr("kind"), dest)  # type: ignore[arg-type]
