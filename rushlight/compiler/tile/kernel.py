"""What the builders share: buffers, scalar parameters, reading a node, finishing a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rushlight.base.dtypes import DType
from rushlight.compiler.fuse.group import Group
from rushlight.compiler.fuse.materialize import Points
from rushlight.compiler.sizes import Hints
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.access import Access, load_of
from rushlight.compiler.tile.coords import broadcast_coords, linear, strides_of
from rushlight.compiler.tile.inplace import Places
from rushlight.compiler.tile.ir import AnyGrid, Axis, Buffer, Grid, Map, Param, Program, Store
from rushlight.compiler.tile.merge_axes import merge_axes
from rushlight.compiler.tile.split import split_axes
from rushlight.compiler.tile.transform import (
    Substitution,
    checked_sizes,
    grid_roots,
    index_exprs,
    store_roots,
    tiles_of,
)
from rushlight.ir import scalar as s
from rushlight.ir.node import Node
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_math import ceildiv, minimum, product
from rushlight.ir.symint_walk import substitute, variables


def is_interleaved(node: Node) -> bool:
    return node.op is not None and node.op.kind == "interleave"


BLOCK = 8192  # elements per instance of a flat map: a few L1s of work, no schedule of any backend


@dataclass(eq=False)
class Kernel:
    """A built program and what its parameters are in the plan.

    nodes    one per program buffer: the graph node it holds, or None for scratch
    slots    one per program param: number slot of the graph
    ints     one per program size: an int or an Expr over the plan's variables
    inplace  (result, source): the result must use the source's memory
    """

    group: Group
    program: Program
    nodes: tuple[Node | None, ...]
    slots: tuple[int, ...]
    ints: tuple[int | Expr, ...]
    inplace: tuple[tuple[Node, Node], ...] = ()

    def reads_own_element(self, source: Node, result: Node) -> bool:
        """See `Places.reads_own_element`, for the buffers that hold these nodes."""
        return self._places.reads_own_element(self.buffer_of(source), self.buffer_of(result))

    def distances(self, result: Node) -> dict[Buffer, int]:
        """See `Places.distances`."""
        return self._places.distances(self.buffer_of(result))

    @cached_property
    def _places(self) -> Places:
        return Places(self.program)

    def buffer_of(self, node: Node) -> Buffer:
        """The buffer that holds a node."""
        return self._buffers[node]

    @cached_property
    def _buffers(self) -> dict[Node | None, Buffer]:
        return dict(zip(self.nodes, self.program.buffers, strict=True))


@dataclass(eq=False)
class KernelBuilder:
    """State of one kernel under construction.

    outputs    members that other kernels or the user read
    leaf       replaced by builders that keep values in tiles
    """

    group: Group
    points: Points
    hints: Hints
    outputs: frozenset[Node]
    site_of: Callable[[Node], int]
    buffers: dict[Any, Buffer] = field(default_factory=dict)
    params: dict[tuple[int, DType], Param] = field(default_factory=dict)
    inplace: list[tuple[Node, Node]] = field(default_factory=list)

    def access(self, leaf: Callable[[Node, tuple, E | None], E | None] | None = None) -> Access:
        return Access(leaf or self.read, self.number, self.site_of)

    def read(self, node: Node, at: tuple, mask: E | None) -> E | None:
        """A load when the node lives in memory outside this kernel, else None (compute it)."""
        if node.leaf != "buffer" and (node not in self.points or node in self.group.at):
            return None
        if 0 in node.shape:  # there is no element, and perhaps no memory, to load from
            return s.const(0, node.dtype)
        return load_of(self.input(node), node.shape, at, mask)

    def number(self, node: Node) -> E:
        key = (node.attrs[0].index, node.dtype)
        if key not in self.params:
            self.params[key] = Param(f"p{len(self.params)}", node.dtype)
        return s.param(self.params[key].name, node.dtype)

    def input(self, node: Node) -> Buffer:
        if node not in self.buffers:
            self.buffers[node] = Buffer(f"b{len(self.buffers)}", node.dtype, node.numel(), "in")
        return self.buffers[node]

    def output(self, node: Node, role: str = "out") -> Buffer:
        if node not in self.buffers:
            self.buffers[node] = Buffer(f"b{len(self.buffers)}", node.dtype, node.numel(), role)
        return self.buffers[node]

    def stores(self, access: Access, member: Node, at: tuple) -> list[Store]:
        """What writes element `at` of a member to memory: one value, or two side by side."""
        if not is_interleaved(member):
            place = linear(at, strides_of(member.shape))
            return [Store(self.output(member), place, access.value(member, at))]
        place = linear(at, strides_of(member.shape[:-1])) * 2
        return [
            Store(
                self.output(member),
                place + i,
                access.value(source, broadcast_coords(source.shape, at)),
            )
            for i, source in enumerate(member.src)
        ]

    def scratch(self, dtype: DType, size: int | Expr) -> Buffer:
        buffer = Buffer(f"b{len(self.buffers)}", dtype, size, "scratch")
        self.buffers[buffer] = buffer
        return buffer

    def finish(
        self, grids: Sequence[AnyGrid], numel: tuple[str, int | Expr] | None = None
    ) -> Kernel:
        """The kernel. `numel`: (name, value) of a size that became a run-time number."""
        mapping, ints, sizes = _canonical_sizes(grids, numel, self.buffers.values())
        buffers = tuple(self.buffers.values())
        if mapping:
            new = {b: replace(b, size=_new_size(b.size, mapping, numel)) for b in buffers}
            renamed = Substitution(mapping, buffers=new)
            grids = [renamed.grid(grid) for grid in grids]
            buffers = tuple(new.values())
        program = Program(
            kernel_name(self.group), buffers, tuple(self.params.values()), sizes, tuple(grids)
        )
        nodes = tuple(key if isinstance(key, Node) else None for key in self.buffers)
        slots = tuple(slot for slot, _ in self.params)
        return Kernel(self.group, program, nodes, slots, ints, tuple(self.inplace))


def _new_size(
    size: int | Expr, mapping: dict[str, int | Expr], numel: tuple[str, int | Expr] | None
) -> int | Expr:
    if numel is not None and size == numel[1]:
        return mapping[numel[0]]
    return substitute(size, mapping)


def _canonical_sizes(
    grids: Sequence[AnyGrid], numel: tuple[str, int | Expr] | None, buffers: Iterable[Buffer]
) -> tuple[dict[str, int | Expr], tuple[int | Expr, ...], tuple[Var, ...]]:
    """Kernel-local names n0, n1, ... for the variables of a program, in order of appearance, so
    that equal kernels of one plan have equal text."""
    found: dict[str, Var] = {}
    for at in _all_sizes(grids, [b.size for b in buffers if numel is None or b.size != numel[1]]):
        for name, var in variables(at).items():
            found.setdefault(name, var)
            if var.kind == "value" and var.atom.hi is not None:  # a size may be its bound alone
                for inner, size in variables(var.atom.hi).items():
                    found.setdefault(inner, size)
    mapping: dict[str, int | Expr] = {}
    ints: list[int | Expr] = []
    for name, var in found.items():
        if var.kind not in ("size", "offset"):
            continue
        mapping[name] = Var(f"n{len(ints)}", var.atom.lo, var.atom.hi, var.kind)
        ints.append(numel[1] if numel and name == numel[0] else var)
    return mapping, tuple(ints), tuple(mapping.values())  # type: ignore[arg-type]


def _all_sizes(
    grids: Sequence[AnyGrid], buffer_sizes: Sequence[int | Expr]
) -> Iterable[int | Expr]:
    """Every index expression, extent and size of a program."""
    for grid in grids:
        yield from _extents(grid)
        roots = list(grid_roots(grid))
        yield from index_exprs(roots)
        yield from checked_sizes(roots)
        for tile in tiles_of(grid):
            yield from tile.shape
    yield from buffer_sizes


def _extents(grid: AnyGrid) -> list[int | Expr]:
    """Of all axes in a grid, wherever they stand."""
    found: list[int | Expr] = []

    def visit(item: Any) -> None:
        if isinstance(item, Axis):
            found.append(item.extent)
        elif isinstance(item, tuple):
            for part in item:
                visit(part)
        elif hasattr(item, "__dataclass_fields__") and not isinstance(item, (Buffer, ir.Local)):
            for name in item.__dataclass_fields__:
                visit(getattr(item, name))

    visit(grid)
    if isinstance(grid, ir.ScatterGrid):
        found.append(grid.rows)
    return found


def kernel_name(group: Group) -> str:
    """A short name that says what the kernel does; the same for equal kernels."""
    names = [m.name.strip("_") for m in group.members]
    shown = "_".join(dict.fromkeys(names[-3:] if len(names) > 3 else names))
    return f"{group.kind}_{shown}_{group.members[-1].dtype.name}"


def map_grids(
    axes: Sequence[Axis], stores: Sequence[Store], hints: Hints, count: bool = True
) -> tuple[list[Grid], tuple[str, int | Expr] | None]:
    """One grid for independent stores over `axes`: merge axes, cut into instances.

    `count`: a flat map takes its element count as a run-time number, so that all tensors which go
    through the same arithmetic share one kernel.
    """
    (statement,) = split_axes(Grid((), (Map(tuple(axes), tuple(stores)),))).body
    assert isinstance(statement, Map)
    axes, stores = statement.axes, statement.stores
    exprs = index_exprs(store_roots(stores))
    merged, mapping, stands_for = merge_axes(axes, exprs)
    if mapping:
        change = Substitution(mapping, stands_for)
        stores = tuple(change.store(store) for store in stores)
        statement = Map(tuple(merged), stores)
    if len(merged) <= 1:
        return _flat_grid(merged, statement, hints, count)
    inner = [merged[-1]]
    outer = list(merged[:-1])
    while outer and hints(product(a.extent for a in inner)) * hints(outer[-1].extent) <= BLOCK:
        inner.insert(0, outer.pop())
    if len(inner) == 1 and hints(inner[0].extent) > 2 * BLOCK:
        block, local, change = _split_axis(inner[0])
        stores = tuple(change.store(store) for store in statement.stores)
        return [Grid((*outer, block), (Map((local,), stores),))], None
    return [Grid(tuple(outer), (Map(tuple(inner), statement.stores),))], None


def _flat_grid(
    merged: Sequence[Axis], statement: Map, hints: Hints, count: bool
) -> tuple[list[Grid], tuple[str, int | Expr] | None]:
    if not merged:
        return [Grid((), (statement,))], None
    axis = merged[0]
    numel = None
    if count and (not isinstance(axis.extent, int) or axis.extent > 64):
        numel = ("numel", axis.extent)
        axis = Axis(axis.name, Var("numel", 1, None, "size"))
        statement = Map((axis,), statement.stores)
    elif isinstance(axis.extent, int) and axis.extent <= BLOCK:
        return [Grid((), (statement,))], None
    block, local, change = _split_axis(axis)
    stores = tuple(change.store(store) for store in statement.stores)
    return [Grid((block,), (Map((local,), stores),))], numel


def _split_axis(axis: Axis) -> tuple[Axis, Axis, Substitution]:
    block = Axis(f"{axis.name}b", ceildiv(axis.extent, BLOCK))
    local = Axis(f"{axis.name}i", minimum(BLOCK, axis.extent - block.var * BLOCK))
    return block, local, Substitution({axis.name: block.var * BLOCK + local.var})
