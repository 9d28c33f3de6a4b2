"""Products of matrices as tiles: `tl.dot`, which is what tensor cores do.

In: a DotGrid of floats. Out: a kernel whose program computes rows x columns outputs, and its text.
Always true: float32 is multiplied in float32; what lies outside of the matrices is 0.

    for first_k in range(0, 90, 32):
        k0 = first_k + across
        ...
        acc = tl.dot(a, b, acc, input_precision="ieee")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Context, Index, Machine, bound
from rushlight.backends.cfamily.dot import lower_dot
from rushlight.backends.cfamily.text import names_in, unpacked
from rushlight.backends.triton.exprs import LaneExprs
from rushlight.backends.triton.lanes import LanePrinter
from rushlight.backends.triton.language import Triton
from rushlight.backends.triton.space import Schedule, default_schedule
from rushlight.base.dtypes import DType
from rushlight.compiler.tile import ir
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import is_nonnegative
from rushlight.ir.symint_math import ceildiv, product
from rushlight.ir.symint_walk import variables


@dataclass(frozen=True, eq=False)
class TileKernel(c.Kernel):
    """The body says which values are computed: a, b, the stores."""

    grid: ir.DotGrid | None = None
    schedule: Schedule = Schedule()
    lead: tuple[ir.Axis, ...] = ()


def lower_tiles(
    grid: ir.DotGrid, machine: Machine, name: str, wanted: Schedule | None = None
) -> tuple[list[c.Kernel], list[c.Array]]:
    if not grid.acc_dtype.is_floating_point:
        return lower_dot(grid, machine, name)
    plan, context = wanted or default_schedule(grid), Context(machine, name, 1)
    rows, columns = (
        ir.Axis("tile_row", ceildiv(grid.m.extent, plan.bm)),
        ir.Axis("tile_column", ceildiv(grid.n.extent, plan.bn)),
    )
    lead = (*grid.batch, rows, columns)
    a, b = (context.expr(s.cast(e, grid.acc_dtype)) for e in (grid.a, grid.b))
    acc = s.param("acc", grid.acc_dtype)
    stores = tuple(context.put_of(store, acc) for store in grid.stores)
    body = (c.Let((("a_tile", a), ("b_tile", b))), c.Puts(stores))
    body += tuple(c.Bind(axis.var, axis.extent) for axis in (*lead, grid.m, grid.n, grid.k))
    groups = product(axis.extent for axis in lead)
    return [TileKernel(name, groups, plan.threads, (), body, None, grid, plan, lead)], []


@dataclass(frozen=True)
class Side:
    """A side of a block: `size` indices of an axis from `start` (text) on."""

    axis: ir.Axis
    start: str
    size: int


class TileExprs(LaneExprs):
    """Blocks have two sides: `sides` are the names of the two indices, `corner` is a block of
    zeros of the whole shape."""

    sides: frozenset[str] = frozenset()
    corner = ""

    def place(self, name: str, text: str, at: Index, is_block: bool) -> str:
        if is_block and not self._is_whole(at):
            text = f"{text} + {self.corner}"
        return f"{name} + ({text})"

    def _is_whole(self, at: Index) -> bool:
        known = variables(at)
        computed = [v for v in known.values() if v.kind == "value"]
        return self.sides <= set(known) or any(self.varies(v.payload) for v in computed)  # type: ignore[arg-type]


class TilePrinter(LanePrinter):
    """Prints one product."""

    def __init__(
        self, owner: c.ThreadProgram, kernel: TileKernel, language: Triton, narrow: bool
    ) -> None:
        super().__init__(owner, kernel, language)
        names = count()
        self.exprs: TileExprs = TileExprs(language, lambda: f"t_{next(names)}")
        self.kernel: TileKernel = kernel
        self.narrow = narrow

    def run(self) -> list[str]:
        kernel, plan, grid = self.kernel, self.kernel.schedule, self.kernel.grid
        assert grid is not None
        self.start(kernel.lead)
        rows = Side(grid.m, f"tile_row * {plan.bm}", plan.bm)
        columns = Side(grid.n, f"tile_column * {plan.bn}", plan.bn)
        kind = self.triton.value_type(grid.acc_dtype)
        self.line(f"acc = tl.full(({plan.bm}, {plan.bn}), 0.0, {kind})")
        self._multiply(grid, rows, columns)
        self.exprs.know("acc", True)
        self.side(rows, 0)
        self.side(columns, 1)
        self.within(rows, columns, lambda: self.block(kernel.body[1:2]))
        return self.lines

    def start(self, lead: Sequence[ir.Axis]) -> None:
        """The head of a kernel, sizes and parameters, and where this program is."""
        kernel = self.kernel
        for line in self.language.kernel_head(kernel, self._buffers()):
            self.line(line)
        used = names_in(kernel.body, kernel)
        self.block(unpacked(self.owner.program, kernel, used, self.language.index))
        self.line("group_id = tl.cast(tl.program_id(0), tl.int64)")
        self.block(bound(lead, c.GROUP))

    def side(self, side: Side, number: int) -> None:
        """The axis' variable is the indices down (0) or across (1) a block."""
        name, along = self.exprs.know(side.axis.name, True), "[None, :]" if number else "[:, None]"
        self.line(f"{name} = {side.start} + tl.cast(tl.arange(0, {side.size}), tl.int64){along}")

    def _multiply(self, grid: ir.DotGrid, rows: Side, columns: Side) -> None:
        (let,) = self.kernel.body[:1]
        assert isinstance(let, c.Let)
        (_, a), (_, b) = let.pairs
        narrow = self.narrow_of(a, b)
        (extent,) = self.texts(grid.k.extent)
        piece = Side(grid.k, "first_k", self.kernel.schedule.bk)
        self.line(f"for first_k in range(0, {extent}, {piece.size}):")
        self.side(rows, 0)
        self.side(piece, 1)
        self.within(rows, piece, lambda: self.operand("a", a, narrow))
        self.side(piece, 0)
        self.side(columns, 1)
        self.within(piece, columns, lambda: self.operand("b", b, narrow))
        self.line('acc = tl.dot(a_tile, b_tile, acc, input_precision="ieee")')
        self.close()

    def narrow_of(self, a: E, b: E) -> DType | None:
        """The 16-bit dtype that both operands were, if tensor cores may take them as they are."""
        if not self.narrow or a.op != "cast" or b.op != "cast":
            return None
        source = a.args[0].dtype
        is_narrow = source.is_floating_point and source.itemsize == 2
        return source if is_narrow and b.args[0].dtype is source else None

    def operand(self, name: str, value: E, narrow: DType | None) -> None:
        """A tile, 0 outside of the matrix."""
        value = value if narrow is None else value.args[0]
        (text,) = self.texts(value)
        mask = self.exprs.mask or f"{self.exprs.corner} == 0"
        text = f"tl.where({mask}, {text}, {'0.0' if narrow is None else '0'})"
        if narrow is not None:
            kind = "bfloat16" if narrow.name == "bfloat16" else "float16"
            text = f"tl.cast({text}, tl.{kind}, bitcast=True)"
        self.line(f"{name}_tile = {text}")

    def within(self, first: Side, second: Side, body: Callable[[], None]) -> None:
        """What body prints is done for the indices that lie inside of both axes."""
        names = [self.exprs.called(side.axis.name) for side in (first, second)]
        self.exprs.sides = frozenset(side.axis.name for side in (first, second))
        self.exprs.corner = f"({names[0]} * 0 + {names[1]} * 0)"
        inside = []
        for side, name in zip((first, second), names, strict=True):
            extent = side.axis.extent
            if not is_nonnegative(0 - extent % side.size) or extent == 0:
                inside.append(f"({name} < {self.texts(extent)[0]})")
        if not inside:
            body()
            return
        whole = inside if len(inside) == 2 else [*inside, f"({self.exprs.corner} == 0)"]
        with self.masked(self.named_mask(" & ".join(whole))):
            body()
