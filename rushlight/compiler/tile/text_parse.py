"""Reads the text of tile programs (see text.py): tests and bug reports are written in it."""

from __future__ import annotations

import ast
import re
from typing import Any

from rushlight.base.dtypes import DType, find_dtype
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.text import quoted
from rushlight.compiler.tile.text_attention import Reader
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, Var
from rushlight.ir.text_expr import LineReader, ParseError

_COMPARE = frozenset("lt le gt ge eq ne".split())


def parse_program(text: str) -> ir.Program:
    """The program that `text.to_text` printed."""
    return _Parser(text).program()


class _Parser(LineReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.buffers: dict[str, ir.Buffer] = {}
        self.params: dict[str, ir.Param] = {}
        self.tiles: dict[str, ir.Local] = {}
        self.values: dict[str, E] = {}

    def next_row(self) -> str:
        word = super().next_row()
        if word in ("program", "site"):
            self.tokens = self.rows[self.row].strip().split(" ", 1)
        return word

    def name(self) -> str:
        return self.take().removeprefix("`")

    def dtype(self) -> DType:
        return find_dtype(self.take())

    # program ------------------------------------------------------------------------------------

    def program(self) -> ir.Program:
        self.next_row()
        self.take("program")
        name = self.take()
        sites: list[str] = []
        grids: list[ir.AnyGrid] = []
        while self.has_more:
            word = self.next_row()
            if word in ("size", "offset"):
                self.size()
            elif word == "param":
                self.take()
                param = self.take()
                self.take(":")
                self.params[param] = ir.Param(param, self.dtype())
            elif word == "buffer":
                self.buffer()
            elif word == "site":
                sites.append(ast.literal_eval(self.tokens[1]))
            else:
                self.tiles = {}
                grids.append(self.grid())
        sizes = tuple(v for v in self.scope.values())
        buffers, params = tuple(self.buffers.values()), tuple(self.params.values())
        return ir.Program(name, buffers, params, sizes, tuple(grids), tuple(sites))

    def size(self) -> None:
        kind, name = self.take(), self.name()
        self.take("in")
        low, high = self.bounds()
        self.scope[quoted(name)] = Var(name, low, high, kind)

    def buffer(self) -> None:
        self.take()
        printed = self.take()
        self.take(":")
        dtype = self.dtype()
        self.take("[")
        size = self.index()
        self.take("]")
        name = printed.removeprefix("`")
        self.buffers[printed] = ir.Buffer(name, dtype, size, self.take())

    # indices ------------------------------------------------------------------------------------

    def variable(self, token: str) -> int | Expr:
        """Besides axes and sizes: @t3{0..7}, a value with its bounds."""
        if token != "@":
            return super().variable(token)
        value = self.values[self.take()]
        self.take("{")
        low, high = self.bounds()
        self.take("}")
        return s.as_index(value, low, high)

    def axes(self, end: str) -> tuple[ir.Axis, ...]:
        """Axes up to the token `end`, bound as they are read."""
        found = []
        while self.peek() != end:
            found.append(self.axis())
            self.accept(",")
        self.take(end)
        return tuple(found)

    def axis(self) -> ir.Axis:
        name = self.take()
        self.take(":")
        # A size may have an axis's name (it is printed with a backquote).
        own = f"{name}_" if f"`{name}" in self.scope else name
        axis = ir.Axis(own, self.index())
        self.scope = {**self.scope, name: axis.var}
        return axis

    def bracketed(self) -> tuple[ir.Axis, ...]:
        self.take("[")
        return self.axes("]")

    # values -------------------------------------------------------------------------------------

    def lines(self) -> None:
        """Definitions up to the first line that is none; that line's tokens stay."""
        while True:
            word = self.next_row()
            if word == "tile":
                self.tile()
            elif re.match(r"t\d+$", word):
                self.take()
                self.take("=")
                self.values[word] = self.value()
            else:
                return

    def tile(self) -> None:
        self.take()
        name = self.take()
        self.take(":")
        dtype = self.dtype()
        self.take("[")
        shape = []
        while not self.accept("]"):
            shape.append(self.index())
            self.accept(",")
        self.tiles[name] = ir.Local("tile" + name[1:], dtype, tuple(shape))

    def atom(self) -> E:
        """A name, a constant, a parameter or acc."""
        token = self.take()
        if token in self.values:
            return self.values[token]
        self.take(":")
        dtype = self.dtype()
        if token.startswith("$"):
            return s.param(token[1:], dtype)
        if token.startswith("acc"):
            return s.acc(dtype, int(token[3:] or 0))
        if dtype.kind == "bool":
            return s.const(token == "True", dtype)
        return s.const(float(token) if dtype.is_floating_point else int(token), dtype)

    def value(self) -> E:
        head = self.take()
        if self.accept("["):
            at = self.index()
            args = []
            while self.accept(","):
                args.append(self.atom())
            self.take("]")
            place = self.place(head)
            return s.local(place, at) if isinstance(place, ir.Local) else s.load(place, at, *args)
        self.take("(")
        if head == "index":
            at = self.index()
            self.take(")")
            return s.index(at)
        args = [self.atom()]
        if head == "check_index":
            self.take(",")
            size = self.index()
            self.take(",")
            site = int(self.take())
            self.take(")")
            return s.check_index(args[0], size, site)
        while self.accept(","):
            args.append(self.atom())
        self.take(")")
        return self.make(head, args)

    def make(self, op: str, args: list[E]) -> E:
        if op in ("cast", "bitcast"):
            self.take(":")
            return s.make(op, tuple(args), self.dtype())
        if op in _COMPARE:
            return s.make(op, tuple(args), s.bool_)
        return s.make(op, tuple(args), args[-1].dtype)

    def place(self, name: str) -> ir.Buffer | ir.Local:
        found = self.tiles.get(name) or self.buffers.get(name)
        return found or self.fail(f"unknown buffer or tile {name!r}")

    def target(self) -> tuple[Any, int | Expr]:
        place = self.place(self.take())
        self.take("[")
        at = self.index()
        self.take("]")
        self.take("=")
        return place, at

    # grids and statements -----------------------------------------------------------------------

    def grid(self) -> ir.AnyGrid:
        outer = self.scope
        word = self.take()
        self.values = {}
        if word == "grid":
            axes = self.axes("{")
            grid: ir.AnyGrid = ir.Grid(axes, self.body())
        elif word == "dot":
            grid = self.dot()
        elif word == "attention":
            grid = Reader(self).grid()
        elif word == "scatter":
            grid = self.scatter()
        else:
            self.fail(f"unknown grid {word!r}")
        self.scope = outer
        return grid

    def body(self) -> tuple[ir.Statement, ...]:
        statements = []
        while self.next_row() != "}":
            statements.append(self.statement())
        return tuple(statements)

    def statement(self) -> ir.Statement:
        outer = self.scope
        self.values = {}
        word = self.take()
        parse = {
            "map": self.map, "reduce": self.reduce, "scan": self.scan, "sort": self.sort,
            "loop": self.loop,
        }.get(word)  # fmt: skip
        if parse is None:
            self.fail(f"unknown statement {word!r}")
        statement = parse()
        self.scope = outer
        return statement

    def map(self) -> ir.Map:
        axes = self.axes("{")
        return ir.Map(axes, self.stores())

    def stores(self) -> tuple[ir.Store, ...]:
        stores = []
        self.lines()
        while self.peek() != "}":
            dest, at = self.target()
            value = self.atom()
            mask = self.atom() if self.accept("if") else None
            stores.append(ir.Store(dest, at, value, mask))
            self.lines()
        return tuple(stores)

    def reduce(self) -> ir.Reduce:
        order, axes = self.take(), self.bracketed()
        self.take("over")
        over = self.axes("{")
        items = []
        self.lines()
        while self.peek() != "}":
            dest, at = self.target()
            kind, value = self.take(), self.atom()
            finish = self.atom() if self.accept("then") else None
            items.append(ir.ReduceItem(kind, value, dest, at, finish))
            self.lines()
        return ir.Reduce(axes, over, tuple(items), order)

    def ordered(self) -> tuple[Any, int | Expr, E]:
        self.lines()
        dest, at = self.target()
        value = self.atom()
        self.next_row()
        return dest, at, value

    def scan(self) -> ir.Scan:
        kind, axes = self.take(), self.bracketed()
        self.take("over")
        (over,) = self.axes("{")
        dest, at, value = self.ordered()
        return ir.Scan(axes, over, kind, value, dest, at)

    def sort(self) -> ir.Sort:
        descending = self.take() == "descending"
        first = self.index() if self.accept("first") else None
        self.take("over")
        (over,) = self.axes("{")
        dest, at, key = self.ordered()
        return ir.Sort(over, key, descending, dest, at, first)

    def loop(self) -> ir.Loop:
        (axis,) = self.axes("{")
        return ir.Loop(axis, self.body())

    def operands(self) -> tuple[E, E]:
        self.lines()
        self.take("operands")
        first = self.atom()
        self.take(",")
        return first, self.atom()

    def dot(self) -> ir.DotGrid:
        slides = (int(self.take()), int(self.take())) if self.accept("sliding") else None
        dtype, batch = self.dtype(), self.bracketed()
        self.take("m")
        (m,) = self.axes("n")
        (n,) = self.axes("k")
        (k,) = self.axes("{")
        a, b = self.operands()
        return ir.DotGrid(batch, m, n, k, a, b, dtype, self.stores(), slides)

    def scatter(self) -> ir.ScatterGrid:
        kind, dest = self.take(), self.buffers[self.take()]
        update, width = self.bracketed()
        self.take("rows")
        rows = self.index()
        self.take("{")
        row, value = self.operands()
        self.next_row()
        return ir.ScatterGrid(update, width, rows, row, value, kind, dest)


__all__ = ["ParseError", "parse_program"]
