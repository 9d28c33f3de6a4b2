"""Many size expressions as one Python function, compiled once.

>>> from rushlight.ir.symint import Var
>>> n = Var("n"); compile_ints([n * 2, 5, n // 3], ("n", "unused"))(10, 0)
(20, 5, 3)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.ir.symint import Atom, Expr, OpAtom, VarAtom

_INFIX = {"floordiv": "//", "mod": "%"}


def compile_ints(values: Sequence[int | Expr], names: Sequence[str]) -> Callable[..., tuple]:
    """A function of the variables (positional, in this order) giving a tuple of ints.

    Only the structure of the expressions gets into the source text, and variables by number, so
    a name can be any string. A variable that is not among `names` is a ValueError.
    """
    number = {name: f"v{i}" for i, name in enumerate(names)}
    body = "".join(f"{_source(value, number)}, " for value in values)
    parameters = ", ".join(number[name] for name in names)
    space = {"min": min, "max": max, "__name__": __name__}  # whose code it is
    return eval(f"lambda {parameters}: ({body})", space)


def _source(value: int | Expr, number: dict[str, str]) -> str:
    if not isinstance(value, Expr):
        return repr(int(value))
    terms = [
        "*".join([repr(coef), *(_atom(atom, number) for atom in monomial)])
        for monomial, coef in value.terms
    ]
    return f"({' + '.join([*terms, repr(value.const)])})"


def _atom(atom: Atom, number: dict[str, str]) -> str:
    if isinstance(atom, VarAtom):
        if atom.name not in number:
            raise ValueError(f"size {atom.name!r} is not a variable of the plan {list(number)}")
        return number[atom.name]
    assert isinstance(atom, OpAtom)
    a, b = _source(atom.a, number), _source(atom.b, number)
    infix = _INFIX.get(atom.op)
    return f"({a} {infix} {b})" if infix else f"{atom.op}({a}, {b})"
