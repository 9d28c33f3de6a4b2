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

from collections.abc import Sequence
from typing import Any

from rushlight.autograd.call_fn import CallFn
from rushlight.autograd.fn_recipe import again_of, stand_in
from rushlight.autograd.node import AccumulateGrad, GradFn
from rushlight.autograd.protocol import TENSORS
from rushlight.autograd.record_fn import RecordFn
from rushlight.autograd.rules import Rules
from rushlight.ir.node import Node
from rushlight.ir.recipe import NotPlain, Recipe

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
            if fn.__class__ in _ADD:
                if not _ADD[fn.__class__](self, fn):
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

    def _add_call(self, fn: CallFn) -> bool:
        if fn.is_gone():
            return False
        self.key.append(fn.template)
        self.key += [self.slot(holder.node) for holder in fn.holders]
        return True

    def slot(self, node: Node) -> Any:
        """A number for a value; a constant stands for itself, and so is part of the key."""
        if node.leaf == "const":
            return node
        found = self.slots.get(node)
        if found is None:
            found = self.slots[node] = len(self.slots)
        return found if node.leaf != "scalar" else (found, node.dtype)


_ADD: dict[type, Any] = {RecordFn: _Walk._add_record, CallFn: _Walk._add_call}


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
        outputs = Rules(walk.index, stands_for).run(roots, walk.grads)
        return TapeGraph(slots, outputs)
    except NotPlain:
        return None
