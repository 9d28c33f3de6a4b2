"""Walks over symbolic integers: replace variables, list them, compute the number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType

from rushlight.ir.symint import Atom, Expr, OpAtom, Var, VarAtom, add, floordiv, mod, mul
from rushlight.ir.symint_math import maximum, minimum


def substitute(value: int | Expr, mapping: Mapping[str, int | Expr]) -> int | Expr:
    """Replace variables by name; the result is simplified again."""
    if not isinstance(value, Expr):
        return value
    result: int | Expr = value.const
    for monomial, coef in value.terms:
        part: int | Expr = coef
        for atom in monomial:
            part = mul(part, _substitute_atom(atom, mapping))
        result = add(result, part)
    return result


def _substitute_atom(atom: Atom, mapping: Mapping[str, int | Expr]) -> int | Expr:
    if isinstance(atom, VarAtom):
        return mapping.get(atom.name, atom.var)
    assert isinstance(atom, OpAtom)
    build = {"floordiv": floordiv, "mod": mod, "min": minimum, "max": maximum}[atom.op]
    return build(substitute(atom.a, mapping), substitute(atom.b, mapping))


_NO_VARIABLES: Mapping[str, Var] = MappingProxyType({})


def variables(value: int | Expr) -> Mapping[str, Var]:
    """Every variable in an expression, by name, in order of appearance."""
    if not isinstance(value, Expr):
        return _NO_VARIABLES
    if value._variables is None:
        value._variables = MappingProxyType(_find_variables(value))
    return value._variables


def _find_variables(value: Expr) -> dict[str, Var]:
    found: dict[str, Var] = {}
    for atom in value.atoms():
        if isinstance(atom, VarAtom):
            found.setdefault(atom.name, atom.var)
        else:
            assert isinstance(atom, OpAtom)
            found.update(variables(atom.a))
            found.update(variables(atom.b))
    return found


def evaluate(value: int | Expr, env: Mapping[str, int]) -> int:
    """The number an expression has when every variable has one."""
    if not isinstance(value, Expr):
        return value
    return value.const + sum(
        coef * prod(_evaluate_atom(atom, env) for atom in monomial)
        for monomial, coef in value.terms
    )


_EVALUATE: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
}


def _evaluate_atom(atom: Atom, env: Mapping[str, int]) -> int:
    if isinstance(atom, VarAtom):
        return env[atom.name]
    assert isinstance(atom, OpAtom)
    return _EVALUATE[atom.op](evaluate(atom.a, env), evaluate(atom.b, env))
