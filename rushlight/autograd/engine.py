"""The backward pass: from roots to leaves, each function once, the youngest ready one first.

In: edges of the roots with their gradients (Tensors). Out: captured gradients, or gradients
accumulated in leaves. Gradients that arrive at one output are added in order of arrival.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from rushlight.autograd import tape
from rushlight.autograd.anomaly import watched
from rushlight.autograd.mode import STATE
from rushlight.autograd.node import AccumulateGrad, GradFn
from rushlight.autograd.protocol import TENSORS
from rushlight.autograd.rules import reachable
from rushlight.ops import add

NO_GRAD = "element {} of tensors does not require grad and does not have a grad_fn"


def run(
    roots: Sequence[tuple[GradFn, int]], grads: Sequence[Any], *, retain: bool, create_graph: bool,
    capture: Sequence[tuple[GradFn, int]] | None = None, accumulate: bool = True,
) -> list[Any]:  # fmt: skip
    """Run backward. With `capture`, only what leads to these edges; returns their gradients."""
    before = STATE.grad, STATE.create_graph
    STATE.grad = STATE.create_graph = create_graph
    try:
        plain = capture is None and not create_graph and not STATE.anomaly
        if plain and tape.run(roots, grads, retain):
            return []
        return _Run(retain, create_graph, capture, accumulate).run(roots, grads)
    finally:
        STATE.grad, STATE.create_graph = before


class _Run:
    def __init__(
        self, retain: bool, create_graph: bool, capture: Sequence[Any] | None, accumulate: bool
    ) -> None:
        self.retain, self.create_graph, self.accumulate = retain, create_graph, accumulate
        self.capture: dict[tuple[int, int], Any] | None = None
        if capture is not None:
            self.capture = {(id(fn), nr): None for fn, nr in capture}
        self.wanted = capture
        self.buffers: dict[int, list[Any]] = {}
        self.waiting: dict[int, int] = {}

    def run(self, roots: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        start = list({id(fn): fn for fn, _ in roots}.values())
        order = reachable(start)
        needed = self._needed(order)
        for fn in order:
            for edge in fn.edges:
                if edge is not None and edge[0] is not None:
                    key = id(edge[0])
                    self.waiting[key] = self.waiting.get(key, 0) + 1
        for (fn, nr), grad in zip(roots, grads, strict=True):
            self._add(fn, nr, grad)
        heap = [(-fn.sequence, id(fn), fn) for fn in start if not self.waiting.get(id(fn))]
        heapq.heapify(heap)
        while heap:
            _, _, fn = heapq.heappop(heap)
            self._step(fn, heap, needed)
        if self.wanted is None:
            return []
        return [self.capture[(id(fn), nr)] for fn, nr in self.wanted]  # type: ignore[index]

    def _needed(self, order: list[GradFn]) -> set[int] | None:
        """Functions from which a captured edge can be reached (None: all are needed)."""
        if self.capture is None:
            return None
        targets = {key for key, _ in self.capture}
        needed: set[int] = set()
        for fn in order:  # inputs of the graph first
            if id(fn) in targets or any(e and id(e[0]) in needed for e in fn.edges):
                needed.add(id(fn))
        return needed

    def _step(self, fn: GradFn, heap: list, needed: set[int] | None) -> None:
        grads = self.buffers.pop(id(fn), None) or [None] * len(fn.likes)
        has_any = any(grad is not None for grad in grads)
        outputs: Sequence[Any] = ()
        if has_any and (needed is None or id(fn) in needed):
            grads = self._tensor_hooks(fn, grads)
            ends_here = self._capture(fn, grads)
            if not ends_here:
                outputs = self._apply(fn, grads, needed)
        for position, edge in enumerate(fn.edges):
            if edge is None or edge[0] is None:
                continue
            grad = outputs[position] if position < len(outputs) else None
            if grad is not None:
                self._add(edge[0], edge[1], grad)
            self.waiting[id(edge[0])] -= 1
            if self.waiting[id(edge[0])] == 0:
                heapq.heappush(heap, (-edge[0].sequence, id(edge[0]), edge[0]))

    def _apply(self, fn: GradFn, grads: list[Any], needed: set[int] | None) -> Sequence[Any]:
        for hook in list((fn.pre_hooks or {}).values()):
            changed = hook(tuple(grads))
            if changed is not None:
                grads = list(changed) if isinstance(changed, tuple | list) else [changed]
        if STATE.anomaly:
            outputs = watched(fn, grads, self.create_graph)
        else:
            outputs = fn.apply(grads, self.create_graph)
        if not self.retain:
            fn.release()
            fn.spent = True
        for hook in list((fn.post_hooks or {}).values()):
            changed = hook(tuple(outputs), tuple(grads))
            if changed is not None:
                outputs = changed if isinstance(changed, tuple | list) else (changed,)
        return outputs

    def _tensor_hooks(self, fn: GradFn, grads: list[Any]) -> list[Any]:
        hooks = fn.hooks
        if isinstance(fn, AccumulateGrad):
            own = fn.variable._leaf_hooks()
            hooks = {0: own} if own else None
        for nr, registered in (hooks or {}).items():
            for hook in list(registered.values()):
                if grads[nr] is None:
                    continue
                changed = hook(grads[nr])
                if changed is not None:
                    grads[nr] = changed
        for nr, weak_tensor in (fn.retains or {}).items():
            tensor = weak_tensor()
            if tensor is not None and grads[nr] is not None:
                tensor._retain(grads[nr])
        return grads

    def _capture(self, fn: GradFn, grads: list[Any]) -> bool:
        """Keep captured gradients; True when the function need not run itself."""
        if self.capture is None:
            return False
        for nr, grad in enumerate(grads):
            if (id(fn), nr) in self.capture:
                self.capture[(id(fn), nr)] = grad
        return isinstance(fn, AccumulateGrad) and not self.accumulate

    def _add(self, fn: GradFn, nr: int, grad: Any) -> None:
        buffer = self.buffers.get(id(fn))
        if buffer is None:
            buffer = self.buffers[id(fn)] = [None] * len(fn.likes)
        before = buffer[nr]
        if before is None:
            buffer[nr] = grad
        elif self.create_graph or not TENSORS.is_plain(before, grad):
            buffer[nr] = sum_of(before, grad)
        else:
            buffer[nr] = TENSORS.make(add.node(TENSORS.value(before), TENSORS.value(grad)))


def sum_of(held: Any, grad: Any) -> Any:
    """The sum of two gradients; a sparse one is added to a dense one, not the other way."""
    return grad + held if held.is_sparse else held + grad
