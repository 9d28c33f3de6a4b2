"""Upper bounds of extents: how large a tile can get.

In: an index expression. Out: a bound that holds no loop axis (it may hold sizes), or None. A lowest
value of 0 is enough to know of a factor: an extent below 0 is an empty loop.
"""

from __future__ import annotations

from rushlight.ir.symint import Atom, Expr, OpAtom, VarAtom, upper
from rushlight.ir.symint_math import maximum
from rushlight.ir.symint_walk import variables

Index = int | Expr


def at_most(value: Index) -> Index | None:
    found = upper(value)
    if found is not None and _is_over_sizes(found):
        return found
    assert isinstance(value, Expr)
    total: Index = value.const
    for monomial, coef in value.terms:
        if coef < 0:
            continue  # what is taken away is at least 0
        term: Index = coef
        for atom in monomial:
            factor = _atom_at_most(atom)
            if factor is None:
                return None
            term = term * factor
        total = total + term
    return total if _is_over_sizes(total) else None


def _is_over_sizes(value: Index) -> bool:
    return all(var.kind == "size" for var in variables(value).values())


def _atom_at_most(atom: Atom) -> Index | None:
    if isinstance(atom, VarAtom):
        if atom.var.kind == "size":
            return atom.var
        return None if atom.hi is None else at_most(atom.hi)
    assert isinstance(atom, OpAtom)
    a, b = at_most(atom.a), at_most(atom.b)
    if atom.op == "min":
        numbers = [n for n in (a, b) if isinstance(n, int)]
        return min(numbers) if numbers else (b if a is None else a)
    if atom.op == "floordiv":
        return None if a is None else a // atom.b
    if atom.op == "mod":
        return None if b is None else b - 1
    return None if a is None or b is None else maximum(a, b)
