"""Sizes read back from the text of a symbolic integer. Only arithmetic is read; nothing runs.

>>> from rushlight.ir.symint import Var
>>> n = Var("n", 1)
>>> parse_size("min(n, 16)*2", {"n": n}) == parse_size("2*min(n, 16)", {"n": n})
True
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import maximum, minimum

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS = {"min": minimum, "max": maximum}


def parse_size(source: str, names: Mapping[str, Expr]) -> int | Expr:
    """The size that `str` wrote; ValueError for anything else."""
    if source.isdecimal():
        return int(source)

    def read(node: ast.expr) -> int | Expr:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -read(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](read(left), read(right))
            case ast.Call(func=ast.Name(id=name), args=[a, b]) if name in _CALLS:
                return _CALLS[name](read(a), read(b))
        raise ValueError(f"size {source!r}: {ast.dump(node)} is not arithmetic over {list(names)}")

    return read(ast.parse(source, mode="eval").body)
