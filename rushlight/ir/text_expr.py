"""Reading tokens and index expressions: what the parsers of graphs and of tile programs share.

The form: terms joined by ` + `, factors by `*`, and the atoms `(a // b)`, `(a % b)`, `min(a, b)`,
`max(a, b)`. Printers may rename variables and sort terms; see `print_expr`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from rushlight.ir import symint, symint_math
from rushlight.ir.symint import Atom, Expr, OpAtom, Var, VarAtom

TOKEN = re.compile(
    r"\s*(-?(?:nan|inf|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?!\w)|\.\.|//"
    r"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[`$%]?\w[\w.]*(?<!\.)|[^\s\w])"
)


def print_expr(at: int | Expr, name_of: Callable[[Var], str]) -> str:
    """The text of an index expression; its order depends on the printed names only."""
    if not isinstance(at, Expr):
        return str(at)
    terms = sorted(_term(monomial, coef, name_of) for monomial, coef in at.terms)
    if at.const:
        terms.append(str(at.const))
    return " + ".join(terms)


def _term(monomial: tuple[Atom, ...], coef: int, name_of: Callable[[Var], str]) -> str:
    factors = sorted(_atom(atom, name_of) for atom in monomial)
    return "*".join(factors if coef == 1 else [str(coef), *factors])


def _atom(atom: Atom, name_of: Callable[[Var], str]) -> str:
    if isinstance(atom, VarAtom):
        return name_of(atom.var)
    assert isinstance(atom, OpAtom)
    a, b = print_expr(atom.a, name_of), print_expr(atom.b, name_of)
    if atom.op in ("min", "max"):
        return f"{atom.op}({a}, {b})"
    return f"({a} {'//' if atom.op == 'floordiv' else '%'} {b})"


def print_bounds(var: Var, name_of: Callable[[Var], str]) -> str:
    low, high = var.atom.lo, var.atom.hi
    shown = ["?" if b is None else print_expr(b, name_of) for b in (low, high)]
    return "..".join(shown)


class ParseError(ValueError):
    """The text cannot be read; says which line."""


class LineReader:
    """A text of lines, one line at a time as tokens; reads index expressions over `scope`."""

    def __init__(self, text: str) -> None:
        self.rows = [row for row in text.splitlines() if row.strip()]
        self.row = -1
        self.tokens: list[str] = []
        self.scope: dict[str, Var] = {}

    def fail(self, message: str) -> NoReturn:
        line = self.rows[self.row] if self.row < len(self.rows) else "end of text"
        raise ParseError(f"{message} in line {self.row + 1}: {line.strip()}")

    def next_row(self) -> str:
        """Go to the next line; its first token."""
        self.row += 1
        if self.row >= len(self.rows):
            self.fail("the text ends too early")
        self.tokens = TOKEN.findall(self.rows[self.row])
        return self.tokens[0]

    @property
    def has_more(self) -> bool:
        return self.row + 1 < len(self.rows)

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, wanted: str | None = None) -> str:
        if not self.tokens or (wanted is not None and self.tokens[0] != wanted):
            self.fail(f"expected {wanted or 'more'}, found {self.peek() or 'the end'}")
        return self.tokens.pop(0)

    def accept(self, wanted: str) -> bool:
        if self.peek() == wanted:
            self.tokens.pop(0)
            return True
        return False

    # index expressions --------------------------------------------------------------------------

    def index(self) -> int | Expr:
        total: int | Expr = self.term()
        while self.accept("+"):
            total = total + self.term()
        return total

    def term(self) -> int | Expr:
        product: int | Expr = self.factor()
        while self.accept("*"):
            product = product * self.factor()
        return product

    def factor(self) -> int | Expr:
        token = self.take()
        if token.lstrip("-").isdigit():
            return int(token)
        if token == "(":
            a = self.index()
            build = symint.floordiv if self.take() == "//" else symint.mod
            b = self.index()
            self.take(")")
            return build(a, b)
        if token in ("min", "max"):
            self.take("(")
            a = self.index()
            self.take(",")
            b = self.index()
            self.take(")")
            return symint_math.minimum(a, b) if token == "min" else symint_math.maximum(a, b)
        return self.variable(token)

    def variable(self, token: str) -> int | Expr:
        if token not in self.scope:
            self.fail(f"unknown variable {token!r}")
        return self.scope[token]

    def bounds(self) -> tuple[Any, Any]:
        low = self.bound()
        self.take("..")
        return low, self.bound()

    def bound(self) -> int | Expr | None:
        return None if self.accept("?") else self.index()
