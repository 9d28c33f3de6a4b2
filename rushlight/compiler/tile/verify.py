"""Is a tile program well formed? Run after every pass that builds or changes one.

In: a Program. Out: nothing, or InvalidProgram that names the grid and statement. Checked: every
variable is a size of the program or a bound axis; names are unique; dtypes agree; ops are known
(and basic, once expanded); tiles are stored before they are read; inputs are not written; offsets
that can be proved wrong are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from rushlight.base.dtypes import float32, float64
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.verify_expr import Invalid, check_node
from rushlight.ir import scalar, symint
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import substitute, variables

ROLES = ("in", "out", "inout", "scratch")


class InvalidProgram(ValueError):
    """A tile program breaks a rule of the tile language: a fault of the compiler."""


def verify_program(program: ir.Program, expanded: bool = True) -> None:
    """Raise InvalidProgram unless the program is well formed. expanded: math ops are errors."""
    _Verifier(program, expanded).run()


class _Verifier:
    def __init__(self, program: ir.Program, expanded: bool) -> None:
        self.program, self.expanded = program, expanded
        self.where: list[str] = [f"program {program.name}"]
        self.scope: set[str] = {var.name for var in program.sizes}
        self.buffers = set(program.buffers)
        self.params = {p.name: p.dtype for p in program.params}
        self.stored: set[ir.Local] = set()
        self.checked: set[E] = set()
        self.acc: Any = None
        self.accs = 1  # how many there are

    def fail(self, message: str) -> NoReturn:
        raise InvalidProgram(f"{', '.join(self.where)}: {message}")

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        self.where.append(place)
        yield
        self.where.pop()

    def run(self) -> None:
        self._unique("buffer", [b.name for b in self.program.buffers])
        self._unique("parameter", [p.name for p in self.program.params])
        self._unique("size", [v.name for v in self.program.sizes])
        for buffer in self.program.buffers:
            if buffer.role not in ROLES:
                self.fail(f"buffer {buffer.name} has role {buffer.role!r}, not one of {ROLES}")
            with self.at(f"buffer {buffer.name}"):
                self.index(buffer.size)
        for number, grid in enumerate(self.program.grids):
            with self.at(f"grid {number}"):
                self.grid(grid)

    def _unique(self, what: str, names: list[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                self.fail(f"two {what}s are called {name!r}")

    @contextmanager
    def axes(self, axes: tuple[ir.Axis, ...]) -> Iterator[None]:
        """Bind axes, outermost first."""
        outer = set(self.scope)
        for axis in axes:
            self.index(axis.extent)
            if axis.name in self.scope:
                self.fail(f"axis {axis.name!r} hides an outer variable of that name")
            self.scope.add(axis.name)
        yield
        self.scope = outer

    # grids --------------------------------------------------------------------------------------

    def grid(self, grid: ir.AnyGrid) -> None:
        self.stored = set()
        if isinstance(grid, ir.DotGrid):
            self.dot(grid)
        elif isinstance(grid, ir.AttentionGrid):
            self.attention(grid)
        elif isinstance(grid, ir.ScatterGrid):
            self.scatter(grid)
        else:
            with self.axes(grid.axes):
                self.body(grid.body)

    def dot(self, grid: ir.DotGrid) -> None:
        for name, operand, axis in (("a", grid.a, grid.m), ("b", grid.b, grid.n)):
            with self.axes((*grid.batch, axis, grid.k)), self.at(f"operand {name}"):
                self.expr(operand)
        if grid.acc_dtype is scalar.bool_:
            self.fail("a sum of bool is not defined: cast first")
        with self.axes((*grid.batch, grid.m, grid.n)):
            self.acc = grid.acc_dtype
            self.stores(grid.stores)
            self.acc = None

    def attention(self, grid: ir.AttentionGrid) -> None:
        if grid.acc_dtype not in (float32, float64):
            self.fail(f"acc_dtype is {grid.acc_dtype.name}, must be float32 or float64")
        for number, product in enumerate(grid.products):
            for name, operand, axis in (("a", product.a, grid.l), ("b", product.b, grid.s)):
                with (
                    self.axes((*grid.batch, axis, product.k)),
                    self.at(f"operand {name} of product {number}"),
                ):
                    self.expr(operand)
        for side, runs in (("l", grid.runs_l), ("s", grid.runs_s)):
            if runs is not None:
                with self.at(f"runs {side}"):
                    self.runs(grid, runs)
        if grid.keep is not None:
            with self.axes((*grid.batch, grid.l, grid.s)), self.at("keep"):
                self._of_dtype(grid.keep, scalar.bool_)
        self.acc, self.accs = grid.acc_dtype, len(grid.products)
        if grid.softmax is not None:
            self.softmax(grid, grid.softmax)
            self.accs = 1
        for number, item in enumerate(grid.sums):
            with self.at(f"sum {number}"):
                self.pair_sum(grid, item)
        for number, item in enumerate(grid.bins):
            with self.at(f"bins {number}"):
                self.pair_bins(grid, item)
        self.acc, self.accs = None, 1

    def runs(self, grid: ir.AttentionGrid, runs: ir.Runs) -> None:
        if runs.rows % ir.KEY_BLOCK or runs.rows < 1 or runs.tile != ir.KEY_BLOCK:
            self.fail(f"rows {runs.rows} must be a multiple of {ir.KEY_BLOCK}, tile {runs.tile} it")
        if runs.group < 1 or runs.rows % runs.group:
            self.fail(f"group {runs.group} must divide rows {runs.rows}")
        if runs.part < 1 or runs.tile % runs.part:
            self.fail(f"part {runs.part} must divide tile {runs.tile}")
        with self.axes((*grid.batch, runs.row)):
            self._of_dtype(runs.begin, scalar.int64)
            self._of_dtype(runs.end, scalar.int64)
        with self.axes((*grid.batch, runs.run)):
            for part in (runs.first, runs.stop, runs.code):
                self._of_dtype(part, scalar.int64)

    def softmax(self, grid: ir.AttentionGrid, softmax: ir.Softmax) -> None:
        with self.axes((*grid.batch, grid.l, grid.s)), self.at("score"):
            self._of_dtype(softmax.score, grid.acc_dtype)
        self.accs = 1
        for name in ("exp", "log"):
            with self.at(name):
                self._of_dtype(getattr(softmax, name), grid.acc_dtype)
        with self.axes((*grid.batch, grid.l)):
            self.stores(softmax.lse_stores)
            self.stores(softmax.top_stores)
        for item in grid.sums:
            if item.over != "s" or item.weight is not scalar.acc(grid.acc_dtype):
                self.fail("a sum of a softmax is over s and its weight is acc 0")
        if grid.bins:
            self.fail("a softmax has no bins")

    def pair_sum(self, grid: ir.AttentionGrid, item: ir.PairSum) -> None:
        if item.over not in ("l", "s"):
            self.fail(f"over is {item.over!r}, must be 'l' or 's'")
        summed, kept = (grid.l, grid.s) if item.over == "l" else (grid.s, grid.l)
        with self.axes((*grid.batch, grid.l, grid.s)), self.at("weight"):
            self._of_dtype(item.weight, grid.acc_dtype)
        n = () if item.n is None else (item.n,)
        accs, self.accs = self.accs, 1
        if item.other is not None:
            acc, self.acc = self.acc, None
            with self.axes((*grid.batch, summed, *n)), self.at("other"):
                self.expr(item.other)
            self.acc = acc
        with self.axes((*grid.batch, kept, *n)):
            self.stores(item.stores)
        self.accs = accs

    def pair_bins(self, grid: ir.AttentionGrid, item: ir.PairBins) -> None:
        with self.axes((*grid.batch, grid.l, grid.s)), self.at("weight and bin"):
            self._of_dtype(item.weight, grid.acc_dtype)
            self._of_dtype(item.bin, scalar.int64)
        accs, self.accs = self.accs, 1
        with self.axes((*grid.batch, item.n)):
            self.stores(item.stores)
        self.accs = accs

    def _of_dtype(self, root: E, dtype: Any, what: str = "value") -> None:
        self.expr(root)
        if root.dtype is not dtype:
            self.fail(f"{what} is {root.dtype.name}, must be {dtype.name}")

    def scatter(self, grid: ir.ScatterGrid) -> None:
        if grid.kind not in ir.SCATTER_KINDS:
            self.fail(f"scatter kind {grid.kind!r} is none of {ir.SCATTER_KINDS}")
        self.index(grid.rows)
        with self.axes((grid.update,)):
            self.expr(grid.row)
            if grid.row.dtype.name != "int64":
                self.fail(f"row is {grid.row.dtype.name}, must be int64")
            with self.axes((grid.width,)):
                self.expr(grid.value)
        self.adds(grid.kind, grid.value)
        self.dest(grid.dest, 0, grid.value.dtype)

    # statements ---------------------------------------------------------------------------------

    def body(self, body: tuple[ir.Statement, ...]) -> None:
        for number, statement in enumerate(body):
            with self.at(f"statement {number} ({type(statement).__name__})"):
                self.statement(statement)

    def statement(self, statement: ir.Statement) -> None:
        if isinstance(statement, ir.Map):
            with self.axes(statement.axes):
                self.stores(statement.stores)
        elif isinstance(statement, ir.Reduce):
            self.reduce(statement)
        elif isinstance(statement, ir.Scan):
            self.scan(statement)
        elif isinstance(statement, ir.Sort):
            with self.axes((statement.over,)):
                self.expr(statement.key)
            with self.axes((statement.stored,)):
                # As many positions as are stored; `at` was written for the whole row.
                mapping = {statement.over.name: statement.stored.var}
                self.dest(statement.dest, substitute(statement.at, mapping), scalar.int64)
        elif isinstance(statement, ir.Loop):
            with self.axes((statement.axis,)):
                self.body(statement.body)
        else:
            self.fail(f"unknown statement {statement!r}")

    def stores(self, stores: tuple[ir.Store, ...]) -> None:
        for number, store in enumerate(stores):
            with self.at(f"store {number}"):
                self.expr(store.value)
                if store.mask is not None:
                    self._of_dtype(store.mask, scalar.bool_, "mask")
        for number, store in enumerate(stores):
            with self.at(f"store {number}"):
                self.dest(store.dest, store.at, store.value.dtype, store.mask is None)

    def reduce(self, statement: ir.Reduce) -> None:
        if statement.order not in ("canonical", "tree"):
            self.fail(f"order {statement.order!r} is neither 'canonical' nor 'tree'")
        for number, item in enumerate(statement.items):
            with self.at(f"item {number}"):
                if item.kind not in ir.REDUCE_KINDS:
                    self.fail(f"kind {item.kind!r} is none of {ir.REDUCE_KINDS}")
                with self.axes((*statement.axes, *statement.over)):
                    self.expr(item.value)
                self.adds(item.kind, item.value)
        for number, item in enumerate(statement.items):
            with self.at(f"item {number}"), self.axes(statement.axes):
                dtype = scalar.int64 if item.kind.startswith("arg") else item.value.dtype
                if item.finish is not None:
                    self.acc = dtype
                    self.expr(item.finish)
                    self.acc, dtype = None, item.finish.dtype
                self.dest(item.dest, item.at, dtype)

    def scan(self, statement: ir.Scan) -> None:
        if statement.kind not in ir.SCAN_KINDS:
            self.fail(f"kind {statement.kind!r} is none of {ir.SCAN_KINDS}")
        self.adds(statement.kind, statement.value)
        with self.axes((*statement.axes, statement.over)):
            self.expr(statement.value)
            is_arg = statement.kind.startswith("arg")
            self.dest(
                statement.dest, statement.at, scalar.int64 if is_arg else statement.value.dtype
            )

    def adds(self, kind: str, value: E) -> None:
        if kind in ("sum", "prod") and value.dtype is scalar.bool_:
            self.fail(f"a {kind} of bool is not defined: cast first")

    # leaves -------------------------------------------------------------------------------------

    def dest(self, dest: Any, at: Any, dtype: Any, unmasked: bool = True) -> None:
        if isinstance(dest, ir.Local):
            self.stored.add(dest)
            for extent in dest.shape:
                self.index(extent)
        elif dest not in self.buffers:
            self.fail(f"buffer {dest.name} is not one of the program's")
        elif dest.role == "in":
            self.fail(f"stores to {dest.name}, which is an input")
        if dest.dtype is not dtype:
            self.fail(f"stores {dtype.name} into {dest.name}, which is {dest.dtype.name}")
        self.index(at)
        if unmasked:
            self.in_range(dest, at)

    def in_range(self, dest: Any, at: Any) -> None:
        """Only what can be proved: the offset's exact bounds, when it is linear in plain axes."""
        if dest.size == 0:
            return  # an empty domain: nothing is stored
        if symint.is_nonnegative(at - dest.size) or symint.is_less(at, 0):
            self.fail(f"offset {at!r} is outside of {dest.name} ({dest.size!r} elements)")
        bounds = _linear_bounds(at)
        if bounds is not None and isinstance(dest.size, int):
            low, high = bounds
            if low < 0 or high >= dest.size:
                self.fail(
                    f"offset {at!r} reaches {low if low < 0 else high}, but {dest.name} has "
                    f"{dest.size} elements"
                )

    def index(self, at: int | Expr) -> None:
        if not isinstance(at, Expr):
            return
        for name, var in variables(at).items():
            if var.kind == "value":
                self.expr(var.payload)  # type: ignore[arg-type]
            elif name not in self.scope:
                self.fail(f"variable {name!r} is neither a size of the program nor a bound axis")

    def expr(self, root: E) -> None:
        for node in scalar.topological((root,)):
            if node.op in ("load", "local"):
                self.memory(node)
            elif node.op == "index":
                self.index(node.meta)
            elif node.op == "check_index":
                self.index(node.meta[0])
            elif node.op == "param" and self.params.get(node.meta) is not node.dtype:
                self.fail(f"parameter {node.meta!r} of {node.dtype.name} is not declared")
            elif node.op == "acc" and (node.dtype is not self.acc or node.meta >= self.accs):
                self.fail("acc is only there for what a dot, a reduction or an attention finishes")
            if node not in self.checked:
                try:
                    check_node(node, self.expanded)
                except Invalid as error:
                    self.fail(str(error))
                self.checked.add(node)

    def memory(self, node: E) -> None:
        place, at = node.meta
        if node.op == "local":
            if place not in self.stored:
                self.fail(f"reads tile {place.name} before anything is stored in it")
        elif place not in self.buffers:
            self.fail(f"buffer {place.name} is not one of the program's")
        if node.dtype is not place.dtype:
            self.fail(f"reads {place.name} ({place.dtype.name}) as {node.dtype.name}")
        self.index(at)


def _linear_bounds(at: int | Expr) -> tuple[int, int] | None:
    """Exact least and largest value of const + sum coef * axis with numeric extents."""
    if not isinstance(at, Expr):
        return at, at
    low = high = at.const
    for monomial, coef in at.terms:
        if len(monomial) != 1 or not isinstance(monomial[0], symint.VarAtom):
            return None
        atom = monomial[0]
        if atom.var.kind != "axis" or not isinstance(atom.hi, int) or atom.hi < 0:
            return None
        low += min(0, coef * atom.hi)
        high += max(0, coef * atom.hi)
    return low, high
