"""Scalar and index expressions as text of a C-like language.

In: expressions. Out: lines that name shared and long parts, and the text of each root. Always true:
a part that is used twice is computed once; helpers that the text calls are in `used`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.backends.cfamily.code import SUBGROUP_OPS
from rushlight.backends.cfamily.double import OPS, soft_helper, soft_step
from rushlight.backends.cfamily.helpers import (
    Helper,
    cast_helper,
    extreme_helper,
    index_helper,
    int_helper,
    is_narrow_float,
    join_helper,
)
from rushlight.backends.cfamily.language import COMPARES, Language
from rushlight.base.dtypes import DType, float32, float64, int64, uint64
from rushlight.ir.scalar import E, children, index_values, topological
from rushlight.ir.symint import Expr, OpAtom, Var, VarAtom, is_nonnegative

LONG = 72  # characters after which a part gets a name
_LEAVES = frozenset("const param index load check_index".split())
_GUARDED = frozenset("idiv irem shl shr".split())


class ExprPrinter:
    """`names` gives fresh names for parts."""

    def __init__(self, language: Language, names: Callable[[], str]) -> None:
        self.language, self.names = language, names
        self.used: dict[str, Helper] = {}
        self.checks = False
        self.lines: list[str] = []  # those before the expression that is being printed

    def emit(self, roots: Sequence[E | int | Expr]) -> tuple[list[str], list[str]]:
        """(lines, texts of the roots); a root may be an index expression."""
        values = [root for root in roots if isinstance(root, E)]
        for root in roots:
            if isinstance(root, Expr):
                values += index_values(root)
        order = topological(values)
        uses: dict[E, int] = {}
        for node in order:
            for child in children(node):
                uses[child] = uses.get(child, 0) + 1
        for root in values:
            uses[root] = uses.get(root, 0) + 1
        lines: list[str] = []
        self.lines = lines
        texts: dict[E, str] = {}
        wanted = {id(root) for root in values}
        for node in order:
            text = self._render(node, texts)
            is_long = len(text) > LONG and id(node) not in wanted
            if _worth_a_name(node, text) and (uses[node] > 1 or is_long):
                name = self.names()
                lines.append(self.language.declare(node.dtype, name, bare(text), False))
                text = name
            texts[node] = text
        return lines, [
            bare(texts[root]) if isinstance(root, E) else bare(self.index(root, texts))
            for root in roots
        ]

    # indices ------------------------------------------------------------------------------------

    def index(self, value: int | Expr, texts: dict[E, str] | None = None) -> str:
        """An index expression, in parentheses where it is a sum."""
        if not isinstance(value, Expr):
            return f"({value})" if value < 0 else str(value)
        parts = []
        terms = sorted(value.terms, key=lambda term: (-len(term[0]), -abs(term[1])))
        for monomial, coef in terms:  # large strides first
            factors = [self._atom(atom, texts or {}) for atom in monomial]
            if abs(coef) != 1:
                factors.append(str(abs(coef)))
            parts.append(("-" if coef < 0 else "+", " * ".join(factors)))
        if value.const:
            parts.append(("-" if value.const < 0 else "+", str(abs(value.const))))
        parts.sort(key=lambda part: part[0] == "-")  # a positive one first, if there is one
        text = "".join(f" {sign} {factor}" for sign, factor in parts).strip()
        text = text.removeprefix("+ ")
        single = len(parts) == 1 and " " not in text
        return text if single else f"({text})"

    def _atom(self, atom: Any, texts: dict[E, str]) -> str:
        if isinstance(atom, VarAtom):
            return self._variable(atom.var, texts)
        assert isinstance(atom, OpAtom)
        a, b = self.index(atom.a, texts), self.index(atom.b, texts)
        if atom.op in ("floordiv", "mod") and is_nonnegative(atom.a):
            return f"({a} {self.language.divides if atom.op == 'floordiv' else '%'} {b})"
        find = index_helper if atom.op in ("floordiv", "mod") else join_helper
        return self._call(find(atom.op, self.language.index.name), bare(a), bare(b))

    def _variable(self, var: Var, texts: dict[E, str]) -> str:
        if var.kind != "value":
            return var.name
        payload: E = var.payload  # type: ignore[assignment]
        text = texts[payload]
        if payload.dtype is self.language.index:
            return text
        return self.language.cast(text, self.language.index)

    # scalars ------------------------------------------------------------------------------------

    def _render(self, node: E, texts: dict[E, str]) -> str:
        args = [texts[a] for a in node.args]
        if node.op in _LEAVES:
            return self._leaf(node, args, texts)
        helper = self._helper_of(node)
        if helper is not None:
            return self._call(helper, *map(bare, args))
        if all(a.op == "const" for a in node.args):
            args[0] = self.language.hidden(args[0], node.args[0].dtype)
        if node.op in ("cast", "raw_cast"):
            return self._cast(node, args[0], texts)
        if node.op == "bitcast":
            return self._bitcast(args[0], node.args[0].dtype, node.dtype)
        if node.op == "select":
            return self.language.select(*args)
        if node.op in _GUARDED:
            return self._guarded(node, args)
        if node.op in COMPARES:
            return self._compared(node, args, texts)
        if node.op in SUBGROUP_OPS:
            return self.language.exchange(node.op, bare(args[0]), node.meta, node.dtype)
        if node.op == "abs" and not node.dtype.is_floating_point:
            return self._whole_abs(node.dtype, args[0])
        return self.language.operation(node.op, node.dtype, args, node.args[0].dtype)

    def _helper_of(self, node: E) -> Helper | None:
        """The helper that does a node's work."""
        if node.op == "call":
            return node.meta
        if node.op in ("fold_max", "fold_min"):
            return extreme_helper(node.op, node.dtype)
        is_soft = self.language.soft_double and node.op in OPS
        return soft_helper(node.op) if is_soft and node.args[0].dtype is float64 else None

    def _compared(self, node: E, args: list[str], texts: dict[E, str]) -> str:
        source = node.args[0].dtype
        places = [_as_index(a) for a in node.args]
        if any(a.op == "index" for a in node.args) and None not in places:
            # In the type of indices, which may be narrower (and so faster) than int64.
            args = [self.index(place, texts) for place in places]  # type: ignore[arg-type]
            source = self.language.index
        return self.language.operation(node.op, node.dtype, args, source)

    def _leaf(self, node: E, args: list[str], texts: dict[E, str]) -> str:
        """What reads something from outside."""
        language = self.language
        if node.op == "const":
            return language.literal(node.meta[0], node.dtype)
        if node.op == "param":
            return node.meta
        if node.op == "index":
            text = self.index(node.meta, texts)
            return text if language.index is int64 else language.cast(text, int64)
        if node.op == "check_index":
            return self._check(node, args[0], texts)
        return self._load(node, args, texts)

    def _whole_abs(self, dtype: DType, x: str) -> str:
        if dtype.kind != "int":
            return x
        operation = self.language.operation
        negative = operation("lt", dtype, [x, self.language.literal(0, dtype)], dtype)
        return self.language.select(negative, operation("neg", dtype, [x], dtype), x)

    def _load(self, node: E, args: list[str], texts: dict[E, str]) -> str:
        memory, at = node.meta
        place = f"{memory.name}[{bare(self.index(at, texts))}]"
        element = self.language.load(place, memory.dtype)
        return self.language.guarded(args[0], element, args[1]) if args else element

    def _check(self, node: E, value: str, texts: dict[E, str]) -> str:
        size, site = node.meta
        self.checks = True
        source = node.args[0].dtype
        wide = value if source is int64 else self.language.cast(value, int64)
        limit = self.index(size, texts)
        if self.language.index is not int64:
            limit = self.language.cast(limit, int64)
        checked = self.language.check_index(wide, bare(limit), site)
        return checked if source is int64 else self.language.cast(checked, source)

    def _cast(self, node: E, text: str, texts: dict[E, str]) -> str:
        source, goal = node.args[0].dtype, node.dtype
        if node.args[0].op == "index" and goal is self.language.index:
            return self.index(node.args[0].meta, texts)
        if node.op == "raw_cast":
            if self.language.soft_double and source is float64:
                text = self._soft_step(text, source, goal)
            return self.language.cast(text, goal)
        if is_narrow_float(source):
            if source is goal:
                return text
            text, source = self._step(text, source, float32), float32
        if is_narrow_float(goal) and source is not float32:
            text, source = self._step(text, source, float32), float32
        return text if source is goal else self._step(text, source, goal)

    def _step(self, text: str, source: DType, goal: DType) -> str:
        helper = cast_helper(source, goal)
        if helper is not None:
            return self._call(helper, bare(text))
        soft = self.language.soft_double and float64 in (source, goal)
        if goal.kind == "bool":
            zero = self.language.literal(0, source)
            if soft:
                return self._call(soft_helper("ne"), bare(text), bare(zero))
            return self.language.operation("ne", goal, [text, zero], source)
        if soft:
            return self._soft_step(text, source, goal)
        return self.language.convert(text, source, goal)

    def _soft_step(self, text: str, source: DType, goal: DType) -> str:
        """From or to a double that is carried as its bits."""
        helper, wanted = soft_step(source, goal)
        if wanted is uint64:
            if source.kind != "uint":  # the sign is extended
                text = self.language.cast(text, int64)
            text = self.language.cast(text, uint64)
        return self._call(helper, bare(text))

    def _bitcast(self, text: str, source: DType, goal: DType) -> str:
        source, goal = self.language.carrier(source), self.language.carrier(goal)
        if source is goal:
            return text
        if goal.kind == "bool":
            return self.language.operation("ne", goal, [text, "0"], source)
        if source.kind == "bool" or not (source.is_floating_point or goal.is_floating_point):
            return self.language.cast(text, goal)
        return self.language.bitcast(text, source, goal)

    def _guarded(self, node: E, args: list[str]) -> str:
        """A division or shift whose second operand may be anything."""
        second = node.args[1]
        if second.op == "const" and _is_safe(node.op, int(second.meta[0]), node.dtype):
            return self.language.operation(f"raw_{node.op}", node.dtype, args, node.dtype)
        return self._call(int_helper(node.op, node.dtype), *map(bare, args))

    def _call(self, helper: Helper, *args: str) -> str:
        if helper.name not in self.used:
            # What it needs comes before it.
            inner = ExprPrinter(self.language, lambda: "")
            inner.emit([helper.value])
            self.used.update(inner.used)
            self.used[helper.name] = helper
        return f"{helper.name}({', '.join(args)})"


def _as_index(node: E) -> int | Expr | None:
    """The index that an expression is, if it is one."""
    if node.op == "index":
        return node.meta
    is_whole = node.op == "const" and not node.dtype.is_floating_point
    return int(node.meta[0]) if is_whole else None


def bare(text: str) -> str:
    """Without the parentheses around the whole."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


def _worth_a_name(node: E, text: str) -> bool:
    return node.op not in ("const", "param") and (node.op != "index" or " " in text)


def _is_safe(op: str, second: int, dtype: DType) -> bool:
    if op in ("shl", "shr"):
        return 0 <= second < 8 * dtype.itemsize
    return second not in (0, -1)
