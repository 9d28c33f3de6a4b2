"""Index expressions as plain data (lists, strings, ints), for files. Nothing here runs code."""

from __future__ import annotations

from typing import Any

from rushlight.ir.symint import (
    Expr,
    OpAtom,
    Var,
    VarAtom,
    floordiv,
    maximum,
    minimum,
    mod,
)

_BUILD = {"floordiv": floordiv, "mod": mod, "min": minimum, "max": maximum}


def to_data(value: int | Expr) -> Any:
    """An int, or [const, [[coefficient, [atom, ...]], ...]]."""
    if not isinstance(value, Expr):
        return int(value)
    return [value.const, [[c, [_atom_data(a) for a in m]] for m, c in value.terms]]


def _atom_data(atom: Any) -> Any:
    if isinstance(atom, VarAtom):
        if atom.var.kind == "value":
            raise ValueError("an index that depends on loaded values has no plain form")
        low, high = (None if b is None else to_data(b) for b in (atom.lo, atom.hi))
        return ["var", atom.name, low, high, atom.var.kind]
    assert isinstance(atom, OpAtom)
    return [atom.op, to_data(atom.a), to_data(atom.b)]


def from_data(data: Any) -> int | Expr:
    """The expression; ValueError or TypeError for anything `to_data` does not write."""
    if isinstance(data, int):
        return data
    const, terms = data
    total: int | Expr = int(const)
    for coefficient, atoms in terms:
        part: int | Expr = int(coefficient)
        for atom in atoms:
            part = part * _atom(atom)
        total = total + part
    return total


def _atom(data: Any) -> int | Expr:
    if data[0] == "var":
        _, name, low, high, kind = data
        bounds = [None if b is None else from_data(b) for b in (low, high)]
        return Var(str(name), bounds[0], bounds[1], str(kind))
    op, a, b = data
    if op not in _BUILD:
        raise ValueError(f"unknown index operation {op!r}")
    return _BUILD[op](from_data(a), from_data(b))
