"""Merging of adjacent axes.

before   Map (i < 4, j < 8): y[i*8 + j] = x[i*8 + j]     after   Map (j < 32): y[j] = x[j]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.compiler.tile.ir import Axis
from rushlight.compiler.tile.transform import IndexMapping
from rushlight.ir.symint import Expr, OpAtom, VarAtom
from rushlight.ir.symint_walk import variables


def coefficient(at: int | Expr, name: str) -> int | Expr | None:
    """The factor of an axis in an index; None when the index is not affine in it."""
    if not isinstance(at, Expr):
        return 0
    total: int | Expr = 0
    for monomial, coef in at.terms:
        count = 0
        rest: int | Expr = coef
        for atom in monomial:
            if isinstance(atom, VarAtom):
                if atom.name == name:
                    count += 1
                else:
                    rest = rest * atom.var
            else:
                assert isinstance(atom, OpAtom)
                if name in variables(atom.a) or name in variables(atom.b):
                    return None
                rest = rest * Expr((((atom,), 1),), 0)
        if count > 1:
            return None
        if count:
            total = total + rest
    return total


def merge_axes(
    axes: Sequence[Axis],
    exprs: Sequence[int | Expr],
    can_merge: Callable[[Axis, Axis], bool] = lambda a, b: True,
) -> tuple[list[Axis], dict[str, int | Expr], dict[str, tuple[Axis, ...]]]:
    """Join neighbours whose indices move together. Gives the new axes, the index mapping, and for
    every old axis the new ones that stand for it (an axis joined into the next one gives none)."""
    result: list[Axis] = []
    mapping: dict[str, int | Expr] = {}
    stands_for: dict[str, tuple[Axis, ...]] = {}
    pending = list(axes)
    while pending:
        axis = pending.pop(0)
        if axis.extent == 1 and (pending or result):
            mapping[axis.name] = 0
            stands_for[axis.name] = ()
            continue
        if (
            result
            and can_merge(result[-1], axis)
            and _moves_together(result[-1], axis, exprs, mapping)
        ):
            outer = result.pop()
            joined = Axis(axis.name, outer.extent * axis.extent)
            mapping[outer.name] = 0
            stands_for[outer.name] = ()
            stands_for[axis.name] = (joined,)
            mapping[axis.name] = joined.var
            result.append(joined)
        else:
            result.append(axis)
    return result, mapping, stands_for


def _moves_together(
    outer: Axis, inner: Axis, exprs: Sequence[int | Expr], mapping: IndexMapping
) -> bool:
    for at in exprs:
        slow, fast = coefficient(at, outer.name), coefficient(at, inner.name)
        if slow is None or fast is None or slow != fast * inner.extent:
            return False
    return True
