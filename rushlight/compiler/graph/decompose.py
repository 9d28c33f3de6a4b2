"""Composite nodes -> primitive nodes, from the records.

before   %2 = softmax(%1, dim=1)
after    %2 = reduce_max(%1) ... exp ... reduce_sum ... div

A composite with `compute_f32` works on float32 when its output is bfloat16 or float16 and rounds
once, at its output (D3). Sources come before uses; each node is rewritten once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.base.dtypes import DType
from rushlight.compiler.decisions import SILENT, Trace, defined_at
from rushlight.compiler.graph.pairs import (
    ordinary,
    scatter_of_pairs,
    stays_inside,
    sum_of_pairs,
)
from rushlight.compiler.graph.simplify import simplify
from rushlight.ir.node import Node, topological, with_dtype, with_sources
from rushlight.ir.pattern import Rule
from rushlight.ops import cast


def decompose(
    roots: Sequence[Node], came_from: dict[Node, Node] | None = None, trace: Trace = SILENT
) -> list[Node]:
    """The same values as graphs of primitive nodes.

    `came_from` is filled: new node -> the given node that it is, or is part of.
    """
    rewriting = _Rewriting({} if came_from is None else came_from, trace)
    return [rewriting.as_ordinary(rewriting.run(root, None), root) for root in roots]


class _Rewriting:
    """done: node -> its primitive form, over all roots and all expansions.

    That of a pair value is a pair value; `ordinary`: such a form -> what others read of it.
    """

    def __init__(self, came_from: dict[Node, Node], trace: Trace) -> None:
        self.done: dict[Node, Node] = {}
        self.ordinary: dict[Node, Node] = {}
        self.came_from = came_from
        self.trace = trace

    def run(self, root: Node, part_of: Node | None) -> Node:
        """`part_of`: the given node in whose expansion `root` stands."""
        done = self.done
        for node in topological([root], stop=done.__contains__):
            if node in done:
                continue
            if node.leaf:
                done[node] = node
                continue
            owner = part_of or node
            src = tuple(done[s] for s in node.src)
            op = node.op
            assert op is not None
            if not node.pairs and op.kind != "composite" and any(s.pairs for s in src):
                done[node] = self._leave_pairs(node, src, owner)
                self.came_from.setdefault(done[node], owner)
                continue
            again = with_sources(node, src)
            if op.kind == "composite":
                expanded = _expand(again)
                self.trace.rewrote(op.name, defined_at(op.decompose), again, expanded)
                done[node] = done[again] = self.run(expanded, owner)
            else:
                done[node] = simplify(again, self._tell)
            self.came_from.setdefault(done[node], owner)
        return done[root]

    def _leave_pairs(self, node: Node, src: tuple[Node, ...], owner: Node) -> Node:
        """A node that is no pair value but reads some."""
        assert node.op is not None
        again = with_sources(node, src)
        values = [s for s in src if s.pairs]
        if node.op.kind == "attention" and all(map(stays_inside, values)):
            return again
        summed = _SUMS[node.name](again) if node.name in _SUMS else None
        if summed is None:
            src = tuple(self.as_ordinary(s, owner) for s in src)
            summed = with_sources(node, src)
        return summed if summed is again else self.run(summed, owner)

    def as_ordinary(self, node: Node, owner: Node) -> Node:
        """A primitive form without pair values."""
        if not node.pairs:
            return node
        return self.run(ordinary(node, self.ordinary), owner)

    def _tell(self, rule: Rule, before: Node, after: Node) -> None:
        self.trace.rewrote(rule.name, rule.defined_at, before, after)


_SUMS = {"reduce_sum": sum_of_pairs, "scatter_nd": scatter_of_pairs}


def _expand(node: Node) -> Node:
    op = node.op
    assert op is not None and op.decompose is not None
    named = op.call_of(node).named
    low = node.dtype.compute is not node.dtype
    if low and op.compute_f32:
        named = {name: _widen(arg) for name, arg in named.items()}
    result = op.decompose(**named)
    if result.dtype is not node.dtype:
        result = cast(result, node.dtype)
    if result.shape != node.shape and len(result.shape) != len(node.shape):
        raise AssertionError(f"{op.name}: decomposition {result.shape}, rule {node.shape}")
    return result


def _widen(arg: Any) -> Any:
    if isinstance(arg, list):
        return [_widen(item) for item in arg]
    if not isinstance(arg, Node) or not _is_low(arg.dtype):
        return arg
    wide = arg.dtype.compute
    return with_dtype(arg, wide) if arg.leaf in ("const", "scalar") else cast(arg, wide)


def _is_low(dtype: DType) -> bool:
    return dtype.compute is not dtype
