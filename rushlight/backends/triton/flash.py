"""Attention as tiles: both products of a pair of blocks by `tl.dot`, the softmax between them.

In: an AttentionGrid, one side of it. Out: a kernel whose program has some owners (queries for
results per query, keys for results per key) and goes over tiles of the others; and its text.
Always true: float32 is multiplied in float32; what is not kept is -inf (without a softmax: 0) and
is not computed, so an index of it is not looked at.

    for tile in range(low, high, 64):
        x = tl.dot(a_tile, b_tile, x); score of x; -inf where nothing is kept
        new top, shrink; x = exp(x - ref); total = total * shrink + sum_of_rows(x)
        sums = tl.dot(x, other_tile, sums * shrink)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.attention import Attention, lower_attention, sides_of
from rushlight.backends.cfamily.bounds import at_most
from rushlight.backends.cfamily.context import Context, Machine
from rushlight.backends.triton.space import FLASH_SPACE, MOST, FlashSchedule, fitted
from rushlight.backends.triton.tiles import Side, TilePrinter
from rushlight.compiler.tile import ir
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint_math import product

LEAST_VALUE = 'float("-inf")'
TURN = c.Note("one tile")  # where the loop over tiles prints its body
ONE = ir.Axis("of_row", 1)  # the second side of what there is one of for each owner


@dataclass(frozen=True, eq=False)
class FlashKernel(c.Kernel):
    """The body says which values are computed, then the loops around TURN."""

    lowering: _Flash | None = None
    schedule: FlashSchedule = FLASH_SPACE[0]


class _Flash(Attention):
    """What the cfamily lowering knows of one side, with the names that the text has."""

    def __init__(
        self, grid: ir.AttentionGrid, side: str, sums: Sequence[ir.PairSum], context: Context,
        plan: FlashSchedule,
    ) -> None:  # fmt: skip
        self.rows = plan.rows
        super().__init__(grid, side, sums, context)
        context.arrays.clear()  # blocks are in registers
        context.scratch.clear()
        context.uses_slots = False
        of = self._with_accs
        self.pairs = [(x.a, x.b) if side == "l" else (x.b, x.a) for x in grid.products]
        self.values = [of(e) for e in (self.weights or [self._score()])]
        self.loops = self.tiles((TURN,))
        self.mask = None if self.kept() is None else context.expr(self.kept())
        self.others = [None if x.other is None else self._cast(x.other) for x in self.sums]

    def _score(self) -> E:
        assert self.softmax is not None
        return self.softmax.score

    def _cast(self, value: E) -> E:
        return self.context.expr(s.cast(value, self.dtype))

    def applied(self, function: E, name: str) -> E:
        """A function of the softmax, of a block that has a name."""
        return self.context.expr(function, s.param(name, self.dtype))

    def puts(self, stores: tuple[ir.Store, ...]) -> c.Puts:
        value = s.param("final_value", self.dtype)
        return c.Puts(tuple(self.context.put_of(store, value) for store in stores))

    def flash_kernel(self, name: str, plan: FlashSchedule) -> FlashKernel:
        lead = (*self.grid.batch, self.blocks)
        read = [*self.values, *(e for pair in self.pairs for e in map(self._cast, pair))]
        read += [] if self.mask is None else [self.mask]
        read += [e for e in self.others if e is not None]
        stores = [x.stores for x in self.sums]
        if self.softmax is not None:
            stores += [self.softmax.lse_stores, self.softmax.top_stores]
        axes = [self.owner, self.inner, *(x.k for x in self.grid.products)]
        axes += [x.n for x in self.sums if x.n is not None]
        body: c.Block = (
            c.Let(tuple((f"read_{n}", e) for n, e in enumerate(read))),
            *(self.puts(some) for some in stores if some),
            *(c.Bind(axis.var, axis.extent) for axis in (*lead, *axes)),
            *self.loops,
        )
        groups = product(axis.extent for axis in lead)
        return FlashKernel(name, groups, plan.threads, (), body, None, self, plan)


def lower_flash(
    grid: ir.AttentionGrid, machine: Machine, name: str, wanted: FlashSchedule | None = None
) -> tuple[list[c.Kernel], list[c.Array]]:
    """As cfamily's, where a feature fits into a tile; sums into bins are always cfamily's."""
    if grid.bins or not all(_fits(x) for x in grid.sums) or not grid.products:
        return lower_attention(grid, machine, name)
    kernels: list[c.Kernel] = []
    plan = wanted or FLASH_SPACE[0]
    for side, own in sides_of(grid):
        context = Context(machine, f"{name}_{side}", plan.threads)
        flash = _Flash(grid, side, own, context, plan)
        kernels.append(flash.flash_kernel(f"{name}_{side}", plan))
    return kernels, []


def _fits(item: ir.PairSum) -> bool:
    most = 1 if item.n is None else at_most(item.n.extent)
    return isinstance(most, int) and most <= MOST


class FlashPrinter(TilePrinter):
    """Prints one side."""

    kernel: FlashKernel  # type: ignore[assignment]

    @property
    def flash(self) -> _Flash:
        assert self.kernel.lowering is not None
        return self.kernel.lowering

    def run(self) -> list[str]:
        flash = self.flash
        self.start((*flash.grid.batch, flash.blocks))
        self.line(f"{ONE.name} = tl.full((1, 1), 0, tl.int64)")
        self.exprs.know(ONE.name, True)
        (first,) = self.texts(flash.start)
        self.owner = Side(flash.owner, first, flash.rows)
        self.side(self.owner, 0)
        self._clear()
        self.block(flash.loops)
        self._outputs()
        return self.lines

    def _clear(self) -> None:
        if self.flash.softmax is not None:
            self.line(f"top = {self._full(1, LEAST_VALUE)}")
            self.line(f"total = {self._full(1, '0.0')}")
        for number, item in enumerate(self.flash.sums):
            self.line(f"sums_{number} = {self._full(self._width(item), '0.0')}")

    def _full(self, columns: int, value: str) -> str:
        kind = self.triton.value_type(self.flash.dtype)
        return f"tl.full(({self.flash.rows}, {columns}), {value}, {kind})"

    def _width(self, item: ir.PairSum) -> int:
        return 1 if item.n is None else fitted(item.n.extent, MOST)

    # one tile -----------------------------------------------------------------------------------

    def note(self, code: c.Note) -> None:
        if code is not TURN:
            super().note(code)
            return
        flash = self.flash
        start = self.exprs.called(flash.tile.name)
        inner = Side(flash.inner, start, ir.KEY_BLOCK)
        for number, (pair, one) in enumerate(zip(flash.pairs, flash.grid.products, strict=True)):
            self._product(number, pair, one.k, inner)
        self._values(inner)
        if flash.softmax is not None:
            self._softmax()
        for number, item in enumerate(flash.sums):
            self._sum(number, item, inner)

    def _product(self, number: int, pair: tuple[E, E], k: ir.Axis, inner: Side) -> None:
        """acc_{number} = owners' rows times the others' columns."""
        acc, size = f"acc_{number}", fitted(k.extent, 32)
        self.line(f"{acc} = {self._full(ir.KEY_BLOCK, '0.0')}")
        (extent,) = self.texts(k.extent)
        self.line(f"for first_k in range(0, {extent}, {size}):")
        piece = Side(k, "first_k", size)
        a, b = (self.flash._cast(value) for value in pair)
        narrow = self.narrow_of(a, b)
        self.side(self.owner, 0)
        self.side(piece, 1)
        self.within(self.owner, piece, lambda: self.operand("a", a, narrow))
        self.side(piece, 0)
        self.side(inner, 1)
        self.within(piece, inner, lambda: self.operand("b", b, narrow))
        self.line(f'{acc} = tl.dot(a_tile, b_tile, {acc}, input_precision="ieee")')
        self.close()
        self.exprs.know(acc, True)

    def _values(self, inner: Side) -> None:
        """x_{n}: scores or weights of the pairs that are kept."""
        flash = self.flash
        self.side(self.owner, 0)
        self.side(inner, 1)
        outside = "0.0" if flash.softmax is None else LEAST_VALUE

        def body() -> None:
            if flash.mask is None:
                self._chosen(outside)
                return
            (kept,) = self.texts(flash.mask)
            with self.masked(self.named_mask(kept)):
                self._chosen(outside)

        self.within(self.owner, inner, body)

    def _chosen(self, outside: str) -> None:
        mask = self.exprs.mask
        for number, value in enumerate(self.flash.values):
            (text,) = self.texts(value)
            text = self.triton.typed(text, self.flash.dtype)
            corner = f"{self.exprs.corner} == 0"
            self.line(f"x_{number} = tl.where({mask or corner}, {text}, {outside})")

    def _softmax(self) -> None:
        flash = self.flash
        assert flash.softmax is not None
        self.line('seen = tl.where(x_0 == x_0, x_0, float("-inf"))  # NaN is never the top')
        self.line("new_top = tl.maximum(top, largest_of_rows(seen))")
        self.line('ref = tl.where(new_top == float("-inf"), 0.0, new_top)')
        self._exp("shrink", "top - ref")
        self._exp("x_0", "x_0 - ref")
        self.line("top = new_top")
        self.line("total = total * shrink + sum_of_rows(x_0)")

    def _exp(self, name: str, of: str) -> None:
        assert self.flash.softmax is not None
        self.line(f"shifted = {of}")
        self.exprs.know("shifted", True)
        (text,) = self.texts(self.flash.applied(self.flash.softmax.exp, "shifted"))
        self.line(f"{name} = {text}")

    def _sum(self, number: int, item: ir.PairSum, inner: Side) -> None:
        flash, name = self.flash, f"sums_{number}"
        x = f"x_{0 if flash.softmax else flash.weights.index(item.weight)}"
        before = f"{name} * shrink" if flash.softmax else name
        other = flash.others[number]
        if other is None:
            self.line(f"{name} = {before} + sum_of_rows({x})")
            return
        assert item.n is not None
        features = Side(item.n, "0", self._width(item))
        self.side(inner, 0)
        self.side(features, 1)
        self.within(inner, features, lambda: self.operand("other", other, None))
        self.line(f'{name} = tl.dot({x}, other_tile, {before}, input_precision="ieee")')

    # results ------------------------------------------------------------------------------------

    def _outputs(self) -> None:
        flash = self.flash
        share = ""
        self.side(self.owner, 0)
        if flash.softmax is not None:
            self.line("share = 1.0 / tl.where(total == 0.0, 1.0, total)")
            share = " * share"
            self.exprs.know("total", True)
            if flash.softmax.lse_stores:
                (log,) = self.texts(flash.applied(flash.softmax.log, "total"))
                self._result(ONE, flash.softmax.lse_stores, f"top + {log}")
            self._result(ONE, flash.softmax.top_stores, "top")
        for number, item in enumerate(flash.sums):
            self._result(item.n or ONE, item.stores, f"sums_{number}{share}")

    def _result(self, axis: ir.Axis, stores: tuple[ir.Store, ...], value: str) -> None:
        if not stores:
            return
        known = at_most(axis.extent)
        columns = Side(axis, "0", 1 if axis is ONE else fitted(axis.extent, MOST))
        assert known is not None
        if axis is not ONE:
            self.side(columns, 1)
        self.line(f"{self.exprs.know('final_value', True)} = {value}")
        self.within(self.owner, columns, lambda: self.block((self.flash.puts(stores),)))
