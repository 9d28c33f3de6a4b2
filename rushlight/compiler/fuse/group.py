"""One kernel to be: its members and their coordinates. `grouping` makes groups of points.

kinds  "map"   members of one shape (up to reshape)
       "rows"  reductions of one operand shape over the same dims, the values of that shape before
               and after them, and values per row; one instance works on one row (or column block)
       "split" the same reductions when there are too few rows to share out: chunks first
       "dot"   a contraction and what is done to each of its elements
       "attention" likewise, of several results over the same pairs (pairs.py)
       "pieces" cat and slice_scatter: one map per piece
       (interleave, two values written side by side, lies where these values do)
       "check" indices that are checked before an update in place (graph/check_first.py)
       others  one point: "scan", "sort", "scatter", "host"
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.ir.node import Node
from rushlight.ir.symint import Expr, Var


@dataclass(eq=False)
class Group:
    """One kernel to be. `at[node]`: the coordinates of a member in the group's axes."""

    kind: str
    number: int
    shape: tuple[int | Expr, ...]
    axes: tuple[Var | int, ...]
    reduced: tuple[int, ...] = ()
    members: list[Node] = field(default_factory=list)
    at: dict[Node, tuple] = field(default_factory=dict)
    weight: int = 0
    # Values and buffers of others that it reads.
    reads: set[Node] = field(default_factory=set)
    before: int = 0  # bit set of groups that must run earlier
    # Of an attention: which of its results a member is, or is made of.
    head: dict[Node, Node] = field(default_factory=dict)

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(d for d in range(len(self.shape)) if d not in self.reduced)

    @property
    def row_shape(self) -> tuple[int | Expr, ...]:
        return tuple(self.shape[d] for d in self.kept)

    @property
    def row_axes(self) -> tuple[Var | int, ...]:
        return tuple(self.axes[d] for d in self.kept)
