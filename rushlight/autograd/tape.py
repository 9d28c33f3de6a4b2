"""A backward pass that was made before: its graph is found by the structure of the tape.

In: the roots of a pass and their gradients. Out: gradients of leaves, accumulated; False when the
pass is not of a plain kind (hooks, functions of the user, history of histories, packed values), and
the ordinary pass of engine.py must be made.

The first time, the rules run on placeholders in the order of the ordinary pass, and the nodes that
they make are kept as a list of instructions. From then on a pass with equal calls, shapes, edges,
shared values and order of making is that list, run over the values that its tape saved: the same
nodes, without a rule, a bound argument or a shape derived.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from rushlight.autograd.fn_recipe import again_of, stand_in
from rushlight.autograd.graph import fit, operand_grads, placeholder
from rushlight.autograd.node import AccumulateGrad, GradFn, RecordFn
from rushlight.autograd.protocol import TENSORS
from rushlight.ir.node import Node
from rushlight.ir.recipe import NotPlain, Recipe
from rushlight.ops import add

MOST_GRAPHS = 512
# Key of a tape -> its graph; None: not of a plain kind, for a reason that the rules have.
_GRAPHS: dict[tuple, TapeGraph | None] = {}


def run(roots: Sequence[tuple[GradFn, int]], grads: Sequence[Any], retain: bool) -> bool:
    """Make the pass if it is a plain one."""
    if any(grad is None for grad in grads):
        return False
    walk = _Walk([TENSORS.value(grad) for grad in grads])
    if not walk.go(roots):
        return False
    key = tuple(walk.key)
    try:
        graph = _GRAPHS[key]
    except KeyError:
        graph = _build(walk, roots)
        if len(_GRAPHS) >= MOST_GRAPHS:
            _GRAPHS.clear()
        _GRAPHS[key] = graph
    if graph is None:
        return False
    order, values = list(walk.index), list(walk.slots)
    variables = [order[number].variable for number in graph.leaves]  # type: ignore[attr-defined]
    found = None
    if not retain:
        _release(order)
    try:
        if not retain and all([variable._grad.grad is None for variable in variables]):
            # Computed at once, without making the nodes: nobody needs what was saved any more.
            found = TENSORS.compute(graph, values)
    finally:  # after an error, too, the leaves have gradients, which wait
        for variable, grad in zip(variables, found or graph.made(values), strict=True):
            TENSORS.accumulate(variable, TENSORS.make(grad), True)
    return True


def _release(order: Sequence[GradFn]) -> None:
    for fn in order:
        fn.release()
        fn.spent = True


class _Walk:
    """index: functions in the order in which they are met; slots: values that are read."""

    def __init__(self, grads: Sequence[Node]) -> None:
        self.grads = grads
        self.index: dict[GradFn, int] = {}
        self.slots: dict[Node, int] = {}
        self.key: list[Any] = []

    def go(self, roots: Sequence[tuple[GradFn, int]]) -> bool:
        """Read the tape; False if the pass is not plain."""
        key, index = self.key, self.index
        for (fn, nr), grad in zip(roots, self.grads, strict=True):
            key += (index.setdefault(fn, len(index)), nr, self.slot(grad))
        stack = list(index)
        while stack:
            fn = stack.pop()
            if fn.hooks or fn.retains or fn.pre_hooks or fn.post_hooks:
                return False
            key.append(index[fn])
            if fn.__class__ is RecordFn:
                if not self._add_record(fn):  # type: ignore[arg-type]
                    return False
            elif fn.__class__ is AccumulateGrad:
                meta = fn.variable._grad  # type: ignore[attr-defined]
                if meta.hooks or meta.post_hooks:
                    return False
                key.append(fn.likes)
                continue
            else:
                return False
            for edge in fn.edges:
                if edge is None or edge[0] is None:
                    key.append(None)
                    continue
                source, number = edge
                at = index.get(source)
                if at is None:
                    at = index[source] = len(index)
                    stack.append(source)
                key += (at, number)
        # Sums of gradients are in the order in which the functions were made.
        made = [fn.sequence for fn in index]
        key.append(tuple(sorted(range(len(made)), key=made.__getitem__)))
        return True

    def _add_record(self, fn: RecordFn) -> bool:
        key = self.key
        if fn.released:
            return False
        key.append(fn.form)
        for position, saved in fn.saved.items():
            counter = saved.counter
            if counter is not None and counter.version != saved.version or saved.unpack is not None:
                return False
            key += (position, self.slot(saved.holder.node))  # type: ignore[union-attr]
        saved_out = fn.saved_out
        if saved_out is not None:
            counter = saved_out.counter
            if counter is not None and counter.version != saved_out.version:
                return False
            if saved_out.unpack is not None:
                return False
            key.append(self.slot(saved_out.holder.node))  # type: ignore[union-attr]
        return True

    def slot(self, node: Node) -> Any:
        """A number for a value; a constant stands for itself, and so is part of the key."""
        if node.leaf == "const":
            return node
        found = self.slots.get(node)
        if found is None:
            found = self.slots[node] = len(self.slots)
        return found if node.leaf != "scalar" else (found, node.dtype)


class TapeGraph(Recipe):
    """leaves: numbers of the functions of leaves, in the order of `outputs`."""

    def __init__(self, slots: Sequence[Node], outputs: Sequence[tuple[int, Node]]) -> None:
        super().__init__(slots, [node for _, node in outputs], again_of(list(slots)))
        self.leaves = [number for number, _ in outputs]


def _build(walk: _Walk, roots: Sequence[tuple[GradFn, int]]) -> TapeGraph | None:
    """Run the rules once, as the ordinary pass would, on placeholders."""
    slots = [stand_in(node) for node in walk.slots]
    stands_for = dict(zip(walk.slots, slots, strict=True))
    try:
        outputs = _Rules(walk.index, stands_for).run(roots, walk.grads)
        return TapeGraph(slots, outputs)
    except NotPlain:
        return None


class _Rules:
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
            if grads[0] is not None:
                if isinstance(fn, AccumulateGrad):
                    outputs.append((number, grads[0]))
                else:
                    found = self._apply(fn, grads[0])  # type: ignore[arg-type]
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
