"""Tile programs as text. `text_parse.parse_program` reads it back to an equal program.

In: a Program. Out: text that holds everything code depends on and nothing else: axes and tiles are
numbered in order of appearance (i0, i1 ... and %0, %1 ...), values by statement (t0, t1 ...), so
object ids and name counters of builders leave no trace. Sites (user lines) are printed for people
and left out of `structural_key`.

    program scale
    size T in 1..?
    param lr: float32
    buffer x: float32[T] in
    buffer y: float32[T] out
    grid i0:T {
      map {
        t0 = x[i0]
        t1 = mul(t0, $lr:float32)
        y[i0] = t1
      }
    }

A name of the program that looks like an axis or a value is printed with a backquote before it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rushlight.compiler.tile import ir
from rushlight.compiler.tile.text_attention import Printer
from rushlight.ir.scalar import E, index_values, topological
from rushlight.ir.symint import Expr, Var
from rushlight.ir.text_expr import print_bounds, print_expr

_CLASH = re.compile(r"[it]\d+$|min$|max$")


def to_text(program: ir.Program, sites: bool = True) -> str:
    """The program as text; `sites=False` leaves out what does not change its code."""
    return _Printer(program).run(sites)


def structural_key(program: ir.Program) -> str:
    """sha256 of the text: equal for programs that differ in nothing that matters to code."""
    return hashlib.sha256(to_text(program, sites=False).encode()).hexdigest()


def quoted(name: str) -> str:
    return f"`{name}" if _CLASH.match(name) else name


class _Printer:
    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.indent = ""
        self.axis_count = 0
        # Names of variables in scope, and what the current statement has printed already.
        self.scope = {var.name: quoted(var.name) for var in program.sizes}
        self.tiles: dict[ir.Local, str] = {}
        self.values: dict[E, str] = {}
        self.value_count = 0
        self.exprs: dict[Expr, str] = {}

    def run(self, sites: bool) -> str:
        program = self.program
        self.line(f"program {program.name}")
        for var in program.sizes:
            bounds = print_bounds(var, self.variable)
            self.line(f"{var.kind} {quoted(var.name)} in {bounds}")
        for param in program.params:
            self.line(f"param {param.name}: {param.dtype.name}")
        for buffer in program.buffers:
            size = self.index(buffer.size)
            self.line(f"buffer {quoted(buffer.name)}: {buffer.dtype.name}[{size}] {buffer.role}")
        if sites:
            for text in program.sites:
                self.line(f"site {text!r}")
        for grid in program.grids:
            self.tiles = {}
            self.grid(grid)
        return "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def open(self, text: str) -> None:
        self.line(text + " {")
        self.indent += "  "

    def close(self) -> None:
        self.indent = self.indent[:-2]
        self.line("}")

    # axes and indices ---------------------------------------------------------------------------

    def bind(self, axes: Iterable[ir.Axis]) -> str:
        """Number the axes and give their text; the caller restores the scope."""
        parts = []
        for axis in axes:
            extent = self.index(axis.extent)
            name = f"i{self.axis_count}"
            self.axis_count += 1
            self.scope = {**self.scope, axis.name: name}
            self.exprs = {}
            parts.append(f"{name}:{extent}")
        return ", ".join(parts)

    def enter(self, scope: dict[str, str]) -> None:
        """A new scope (of a statement, or the outer one again): nothing is printed in it yet."""
        self.scope, self.values, self.exprs = scope, {}, {}
        self.value_count = 0

    def index(self, at: int | Expr) -> str:
        if not isinstance(at, Expr):
            return str(at)
        found = self.exprs.get(at)
        if found is None:
            found = self.exprs[at] = print_expr(at, self.variable)
        return found

    def variable(self, var: Var) -> str:
        if var.kind != "value":
            return self.scope[var.name]
        return f"@{self.values[var.payload]}{{{print_bounds(var, self.variable)}}}"  # type: ignore[index]

    # values -------------------------------------------------------------------------------------

    def define(self, roots: Sequence[E], indices: Sequence[int | Expr] = ()) -> None:
        """Lines for all values that the roots and indices need and that have none yet."""
        for node in topological([*roots, *(v for at in indices for v in index_values(at))]):
            if node in self.values:
                continue
            text = self._value(node)
            if node.op not in ("const", "param", "acc"):
                name = f"t{self.value_count}"
                self.value_count += 1
                self.line(f"{name} = {text}")
                text = name
            self.values[node] = text

    def _value(self, node: E) -> str:
        op = node.op
        if op == "const":
            return f"{node.meta[0]!r}:{node.dtype.name}"
        if op == "param":
            return f"${node.meta}:{node.dtype.name}"
        if op == "index":
            return f"index({self.index(node.meta)})"
        if op in ("load", "local"):
            place, at = node.meta
            masked = "".join(f", {self.values[a]}" for a in node.args)
            return f"{self.place(place)}[{self.index(at)}{masked}]"
        if op == "acc":
            return f"acc{node.meta or ''}:{node.dtype.name}"
        inner = ", ".join([self.values[a] for a in node.args])
        if op == "check_index":
            size, site = node.meta
            return f"check_index({inner}, {self.index(size)}, {site})"
        suffix = f":{node.dtype.name}" if op in ("cast", "bitcast") else ""
        return f"{op}({inner}){suffix}"

    def place(self, place: Any) -> str:
        if not isinstance(place, ir.Local):
            return quoted(place.name)
        name = self.tiles.get(place)
        if name is None:
            name = self.tiles[place] = f"%{len(self.tiles)}"
            shape = ", ".join(self.index(extent) for extent in place.shape)
            self.line(f"tile {name}: {place.dtype.name}[{shape}]")
        return name

    def target(self, dest: Any, at: int | Expr) -> str:
        return f"{self.place(dest)}[{self.index(at)}]"

    # statements ---------------------------------------------------------------------------------

    def stores(self, stores: Sequence[ir.Store]) -> None:
        roots = [s.value for s in stores] + [s.mask for s in stores if s.mask is not None]
        self.define(roots, [s.at for s in stores])
        for store in stores:
            masked = f" if {self.values[store.mask]}" if store.mask is not None else ""
            target = self.target(store.dest, store.at)
            self.line(f"{target} = {self.values[store.value]}{masked}")

    def statement(self, statement: ir.Statement) -> None:
        outer = self.scope
        self.enter(outer)
        if isinstance(statement, ir.Map):
            self.open(f"map {self.bind(statement.axes)}".rstrip())
            self.stores(statement.stores)
        elif isinstance(statement, ir.Reduce):
            axes = self.bind(statement.axes)
            inside = self.scope
            over = self.bind(statement.over)
            self.open(f"reduce {statement.order} [{axes}] over {over}".rstrip())
            self.reduce_items(statement, inside)
        elif isinstance(statement, ir.Scan):
            axes = self.bind(statement.axes)
            over = self.bind((statement.over,))
            self.open(f"scan {statement.kind} [{axes}] over {over}")
            self.ordered(statement.value, statement.dest, statement.at)
        elif isinstance(statement, ir.Sort):
            way = "descending" if statement.descending else "ascending"
            some = "" if statement.first is None else f"first {self.index(statement.first)} "
            self.open(f"sort {way} {some}over {self.bind((statement.over,))}")
            self.ordered(statement.key, statement.dest, statement.at)
        else:
            self.open(f"loop {self.bind((statement.axis,))}")
            for inner in statement.body:
                self.statement(inner)
        self.close()
        self.enter(outer)

    def ordered(self, value: E, dest: Any, at: int | Expr) -> None:
        self.define([value], [at])
        self.line(f"{self.target(dest, at)} = {self.values[value]}")

    def reduce_items(self, statement: ir.Reduce, inside: dict[str, str]) -> None:
        self.define([item.value for item in statement.items])
        folded = [self.values[item.value] for item in statement.items]
        # Finishes and offsets live outside of the folded axes: values there get names of their own.
        count = self.value_count
        self.enter(inside)
        self.value_count = count
        for item, value in zip(statement.items, folded, strict=True):
            self.define([] if item.finish is None else [item.finish], [item.at])
            finish = "" if item.finish is None else f" then {self.values[item.finish]}"
            self.line(f"{self.target(item.dest, item.at)} = {item.kind} {value}{finish}")

    def grid(self, grid: ir.AnyGrid) -> None:
        outer = self.scope
        self.enter(outer)
        if isinstance(grid, ir.Grid):
            self.open(f"grid {self.bind(grid.axes)}".rstrip())
            for statement in grid.body:
                self.statement(statement)
        elif isinstance(grid, ir.DotGrid):
            self.dot(grid)
        elif isinstance(grid, ir.AttentionGrid):
            Printer(self).grid(grid)
        else:
            self.scatter(grid)
        self.close()
        self.enter(outer)

    def dot(self, grid: ir.DotGrid) -> None:
        batch = self.bind(grid.batch)
        m, n, k = self.bind((grid.m,)), self.bind((grid.n,)), self.bind((grid.k,))
        sliding = "" if grid.slides is None else "sliding {} {} ".format(*grid.slides)
        self.open(f"dot {sliding}{grid.acc_dtype.name} [{batch}] m {m} n {n} k {k}")
        self.define([grid.a, grid.b])
        self.line(f"operands {self.values[grid.a]}, {self.values[grid.b]}")
        self.stores(grid.stores)

    def scatter(self, grid: ir.ScatterGrid) -> None:
        axes = self.bind((grid.update, grid.width))
        self.open(
            f"scatter {grid.kind} {quoted(grid.dest.name)} [{axes}] rows {self.index(grid.rows)}"
        )
        self.define([grid.row, grid.value])
        self.line(f"operands {self.values[grid.row]}, {self.values[grid.value]}")


__all__ = ["quoted", "structural_key", "to_text"]
