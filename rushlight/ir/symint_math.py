"""Functions of symbolic integers that are made of sums, products and quotients.

In: ints and expressions. Out: an int where the arguments decide it, else an expression.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.ir.symint import Expr, OpAtom, add, floordiv, is_nonnegative, make_polynomial, mul


def minimum(a: int | Expr, b: int | Expr) -> int | Expr:
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return min(a, b)
    if is_nonnegative(add(b, mul(a, -1))):
        return a
    if is_nonnegative(add(a, mul(b, -1))):
        return b
    return make_polynomial({(OpAtom("min", a, b),): 1}, 0)


def maximum(a: int | Expr, b: int | Expr) -> int | Expr:
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return max(a, b)
    if is_nonnegative(add(b, mul(a, -1))):
        return b
    if is_nonnegative(add(a, mul(b, -1))):
        return a
    return make_polynomial({(OpAtom("max", a, b),): 1}, 0)


def ceildiv(a: int | Expr, d: int | Expr) -> int | Expr:
    return floordiv(add(a, add(d, -1)), d)


def product(values: Iterable[int | Expr]) -> int | Expr:
    result: int | Expr = 1
    for value in values:
        result = mul(result, value)
    return result
