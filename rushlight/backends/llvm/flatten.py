"""Several `over` axes as one, where memory allows.

    sum over (i < 8, j < T) of x[T*i + j]   ->   sum over (f < 8*T) of x[f]

The flattened axis f replaces i by f // T and j by f % T; the simplifier joins them again where the
elements are neighbours. Where a division stays, the axes are left as they are.
"""

from __future__ import annotations

from dataclasses import replace

from rushlight.compiler.tile.ir import Axis, Reduce
from rushlight.compiler.tile.transform import Substitution
from rushlight.ir.scalar import E, topological
from rushlight.ir.symint import Expr, OpAtom, floordiv, mod
from rushlight.ir.symint_math import product
from rushlight.ir.symint_walk import variables

Index = int | Expr


def flatten_over(statement: Reduce) -> Reduce:
    """The same Reduce with one over axis if no index needs a division for it."""
    over = statement.over
    if len(over) == 1 or any(_depends_on(a.extent, over) for a in over):
        return statement
    flat = Axis(f"{over[0].name}.flat", product(a.extent for a in over))
    mapping: dict[str, Index] = {}
    inner: Index = 1
    for axis in reversed(over):
        place = floordiv(flat.var, inner)
        mapping[axis.name] = place if axis is over[0] else mod(place, axis.extent)
        inner = inner * axis.extent
    change = Substitution(mapping)
    values = [change.expr(item.value) for item in statement.items]
    if any(_divides(value, flat) for value in values):
        return statement
    items = tuple(
        replace(item, value=value) for item, value in zip(statement.items, values, strict=True)
    )
    return replace(statement, over=(flat,), items=items)


def _depends_on(extent: Index, axes: tuple[Axis, ...]) -> bool:
    return any(axis.name in variables(extent) for axis in axes)


def _divides(value: E, flat: Axis) -> bool:
    for node in topological((value,)):
        for at in _indices(node):
            if isinstance(at, Expr) and any(
                isinstance(atom, OpAtom) and flat.name in variables(atom.a) for atom in at.atoms()
            ):
                return True
    return False


def _indices(node: E) -> tuple[Index, ...]:
    if node.op in ("load", "local"):
        return (node.meta[1],)
    if node.op == "check_index":
        return (node.meta[0],)
    return (node.meta,) if node.op == "index" else ()
