"""Indices are checked before memory that holds somebody's value is overwritten.

before   %4 = scatter_nd(%1, %2, [%3])                            %1 may be overwritten
after    %4 = scatter_nd(%1, %2, [gather_nd(iota(n), [%3])])      n = the size of %1

`gather_nd(iota(n), [i])` is `i`, checked. It becomes a kernel of its own, and the plan runs every
such kernel, and whatever else may fail, before the first update in place: a run that fails then
leaves memory as it was. An index that is known only after the update stays where it is; `steps.py`
lets such an update write to a copy.

Without such an update, but with memory that may be taken over, only indices that several nodes use
are checked apart: the last check then comes early (an embedding is looked up in the forward and
scattered to at the end of the backward), and more results can take over memory after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from rushlight.base.dtypes import int64
from rushlight.compiler.decisions import SILENT, Trace, defined_at
from rushlight.compiler.graph.in_range import is_in_range
from rushlight.ir.node import Node, make_node, topological, with_sources
from rushlight.ir.symint import Expr
from rushlight.ops import gather_nd, iota

FIRST_INDEX = {"gather": 1, "scatter": 2}  # position of the first index among the sources


def check_first(
    roots: Sequence[Node],
    donated: frozenset[Node],
    is_update: Callable[[Node], bool],
    trace: Trace = SILENT,
) -> tuple[list[Node], dict[Node, Node], dict[Node, Node]]:
    """The same values; new node -> old node; checked index -> the old node that needs it.

    `is_update(node)`: a kernel of its own that may write into its first source's memory.
    """
    if not donated:
        return list(roots), {}, {}
    order = topological(list(roots))
    later = {n for n in order if not n.leaf and n.src and n.src[0] in donated and is_update(n)}
    has_update = bool(later)
    for node in order if has_update else ():
        if not later.isdisjoint(node.src):
            later.add(node)
    wanted = {node: _indices(node, later) for node in order}
    uses = Counter((n.src[i], size) for n, places in wanted.items() for i, size in places.items())
    if not has_update and all(count == 1 for count in uses.values()):
        return list(roots), {}, {}
    new: dict[Node, Node] = {}
    checks: dict[Node, Node] = {}
    for node in order:
        src = [new[s] for s in node.src]
        checked = {
            i: _checked(src[i], size)
            for i, size in wanted[node].items()
            if has_update or uses[node.src[i], size] > 1
        }
        for i, index in checked.items():
            src[i] = index
        new[node] = with_sources(node, tuple(src))
        for index in checked.values():
            checks.setdefault(index, node)
        if checked:
            trace.rewrote("check_first", defined_at(check_first), node, new[node])
    came_from = {again: node for node, again in new.items() if again is not node}
    return [new[root] for root in roots], came_from, checks


def _indices(node: Node, later: set[Node]) -> dict[int, int | Expr]:
    """Positions of the sources that are indices to be checked now -> the size they must fit."""
    first = None if node.op is None else FIRST_INDEX.get(node.op.kind)
    if first is None or node.pairs:  # an attention checks indices of pairs itself
        return {}
    sizes = dict(enumerate(node.src[0].shape, first))
    return {
        i: sizes[i]
        for i in range(first, len(node.src))
        if node.src[i] not in later and not is_in_range(node.src[i], sizes[i])
    }


def _checked(index: Node, size: int | Expr) -> Node:
    places = make_node(iota, (), (size, int64), (size,), int64)
    return make_node(gather_nd, (places, index), (), index.shape, int64)


def may_fail(node: Node) -> bool:
    """A run may end at this node: an index is checked there, or the host may refuse."""
    if node.op is None:
        return False
    first = FIRST_INDEX.get(node.op.kind)
    if first is None:
        return node.op.kind == "host"
    pairs = zip(node.src[first:], node.src[0].shape, strict=False)
    return not all(is_in_range(index, size) for index, size in pairs)
