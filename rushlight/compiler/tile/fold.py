"""Arithmetic on indices becomes index arithmetic: what backends know to be affine loads in rows.

before   load b[v], v = sub(index(d0), index(d1)) + 7      (a gather)
after    load b[d0 - d1 + 7]                               (neighbours along d0)

Only int64 values that are indices or numbers; comparisons only where bounds decide them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.base.dtypes import bool_, int64
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, floordiv, is_less, is_nonnegative, mod

Index = int | Expr


def fold(name: str, args: Sequence[E]) -> E | None:
    """The value of an elementwise op of these arguments, or None when it is nothing simple."""
    if name == "where" and args[0].op == "const":
        return args[1] if args[0].meta[0] else args[2]
    if len(args) != 2 or not all(_is_index(a) for a in args):
        return None
    a, b = (index_of(x) for x in args)
    if name in _ARITHMETIC:
        found = _ARITHMETIC[name](a, b)
        return None if found is None else s.index(found)
    if name in _COMPARISONS:
        known = _COMPARISONS[name](a, b)
        return None if known is None else s.const(known, bool_)
    return None


def _is_index(x: E) -> bool:
    return x.dtype is int64 and x.op in ("index", "const")


def index_of(x: E) -> Index:
    return x.meta if x.op == "index" else int(x.meta[0])


def _times(a: Index, b: Index) -> Index | None:
    return a * b if isinstance(a, int) or isinstance(b, int) else None


def _divided(rule: Callable[[Index, Index], Index]) -> Callable[[Index, Index], Index | None]:
    return lambda a, b: rule(a, b) if isinstance(b, int) and b > 0 else None


def _less(a: Index, b: Index) -> bool | None:
    """a < b, where the bounds of both tell."""
    if is_less(a, b):
        return True
    return False if is_nonnegative(a - b) else None


def _not(known: bool | None) -> bool | None:
    return None if known is None else not known


_ARITHMETIC: dict[str, Callable[[Index, Index], Index | None]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": _times,
    "floor_divide": _divided(floordiv),
    "remainder": _divided(mod),
}
_COMPARISONS: dict[str, Callable[[Index, Index], bool | None]] = {
    "lt": _less,
    "ge": lambda a, b: _not(_less(a, b)),
    "gt": lambda a, b: _less(b, a),
    "le": lambda a, b: _not(_less(b, a)),
}
