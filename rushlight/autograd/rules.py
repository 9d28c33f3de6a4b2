"""The gradient rules of a pass, run on leaves that stand for values.

In: functions of a tape, the leaf that stands for each value that they saved, edges of the roots
with their gradients. Out: for each function of a leaf that is reached, its gradient. The order, and
so each sum, is that of the ordinary pass (engine.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from rushlight.autograd.graph import fit, operand_grads, placeholder
from rushlight.autograd.node import AccumulateGrad, GradFn
from rushlight.autograd.record_fn import RecordFn
from rushlight.ir.node import Node
from rushlight.ops import add


class Rules:
    """`index`: all functions that can be reached from the roots, each with its number."""

    def __init__(self, index: dict[GradFn, int], stands_for: dict[Node, Node]) -> None:
        self.index, self.stands_for = index, stands_for
        self.buffers: dict[GradFn, list[Node | None]] = {}
        self.waiting: dict[GradFn, int] = {}

    def run(
        self, roots: Sequence[tuple[GradFn, int]], grads: Sequence[Node]
    ) -> list[tuple[int, Node]]:
        for fn in self.index:
            for edge in fn.edges:
                if edge is not None and edge[0] is not None:
                    self.waiting[edge[0]] = self.waiting.get(edge[0], 0) + 1
        for (fn, nr), grad in zip(roots, grads, strict=True):
            self._add(fn, nr, self._value(grad))
        start = dict.fromkeys(fn for fn, _ in roots)
        heap = [(-fn.sequence, self.index[fn], fn) for fn in start if not self.waiting.get(fn)]
        heapq.heapify(heap)
        outputs: list[tuple[int, Node]] = []
        while heap:
            _, number, fn = heapq.heappop(heap)
            grads = self.buffers.pop(fn, None) or [None] * len(fn.likes)  # type: ignore
            found: Sequence[Node | None] = ()
            if isinstance(fn, AccumulateGrad):
                outputs += [(number, grad) for grad in grads if grad is not None]
            elif any(grad is not None for grad in grads):
                found = self._found(fn, grads)
            for position, edge in enumerate(fn.edges):
                if edge is None or edge[0] is None:
                    continue
                grad = found[position] if position < len(found) else None
                if grad is not None:
                    self._add(edge[0], edge[1], grad)
                self.waiting[edge[0]] -= 1
                if self.waiting[edge[0]] == 0:
                    heapq.heappush(heap, (-edge[0].sequence, self.index[edge[0]], edge[0]))
        return outputs

    def _value(self, node: Node) -> Node:
        return self.stands_for.get(node, node)

    def _found(self, fn: GradFn, grads: Sequence[Node | None]) -> Sequence[Node | None]:
        if isinstance(fn, RecordFn):
            return self._apply(fn, grads[0])  # type: ignore[arg-type]
        return fn.run_rules(self._value, grads)  # type: ignore[attr-defined]  # a call as a whole

    def _apply(self, fn: RecordFn, g: Node) -> list[Node | None]:
        sources = [
            self._value(fn.saved[i].holder.node) if i in fn.saved else placeholder(*like)  # type: ignore[union-attr]
            for i, like in enumerate(fn.source_likes)
        ]
        saved_out = fn.saved_out
        out = placeholder(*fn.likes[0]) if saved_out is None else self._value(saved_out.holder.node)  # type: ignore[union-attr]
        needs = [edge is not None for edge in fn.edges]
        needs += [False] * (len(sources) - len(needs))
        nodes = operand_grads(fn.record, fn.attrs, sources, out, g, needs)
        return [
            None if node is None else fit(node, *target)
            for node, target in zip(nodes, fn.targets, strict=False)
        ]

    def _add(self, fn: GradFn, nr: int, grad: Node) -> None:
        buffer = self.buffers.setdefault(fn, [None] * len(fn.likes))
        before = buffer[nr]
        buffer[nr] = grad if before is None else add.node(before, grad)


def reachable(start: Sequence[Any]) -> list[Any]:
    """Every function below `start`, inputs of the graph first. Iterative: tapes are long."""
    order: list[Any] = []
    seen: set[int] = set()
    for root in start:
        if id(root) in seen:
            continue
        seen.add(id(root))
        stack: list[Any] = [(root, iter(root.edges))]
        while stack:
            fn, edges = stack[-1]
            for edge in edges:
                if edge is not None and edge[0] is not None and id(edge[0]) not in seen:
                    seen.add(id(edge[0]))
                    stack.append((edge[0], iter(edge[0].edges)))
                    break
            else:
                stack.pop()
                order.append(fn)
    return order
