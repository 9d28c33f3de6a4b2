"""Replacing index variables where some of the new indices lie outside: loads there read nothing.

b[k]    k -> 2 * p + 1, there: 2 * p + 1 < K     ->     b[2 * p + 1] where there, else 0
"""

from __future__ import annotations

from collections.abc import Set

from rushlight.base.dtypes import int64
from rushlight.compiler.tile.transform import IndexMapping, Substitution
from rushlight.ir.scalar import E, const, index, load, lt
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import variables


class Guarded(Substitution):
    """Loads whose index has one of `names` in it are done where `there` holds (None: always)."""

    def __init__(self, mapping: IndexMapping, names: Set[str], there: E | None) -> None:
        super().__init__(mapping)
        self.names = names
        self.there = there

    def _rebuild(self, node: E) -> E:
        made = super()._rebuild(node)
        is_inside = node.op != "load" or not self.names & variables(node.meta[1]).keys()
        if self.there is None or is_inside:
            return made
        mask, other = made.args or (None, const(0, node.dtype))
        return load(*made.meta, self.allowed(mask), other)

    def allowed(self, mask: E | None) -> E | None:
        """`mask` where the indices are inside."""
        if self.there is None:
            return mask
        return self.there if mask is None else mask & self.there


def is_before(at: int | Expr, extent: int | Expr) -> E:
    return lt(index(at), const(extent, int64) if isinstance(extent, int) else index(extent))
