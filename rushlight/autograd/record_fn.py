"""The gradient function of a record's call, and of that gradient itself.

In: what a call's gradient depends on besides values (a Form, one for equal calls), and what was
saved. Out: gradients; recorded in turn where a graph of them is asked for (double backward).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.autograd.anomaly import forward_call
from rushlight.autograd.fn_recipe import grads_of
from rushlight.autograd.graph import GraphFn, fit, operand_grads, placeholder, zeros
from rushlight.autograd.mode import STATE
from rushlight.autograd.node import SECOND_TIME, SEQUENCE, GradFn
from rushlight.autograd.protocol import TENSORS
from rushlight.autograd.saved import Saved, hold
from rushlight.ir.node import Node
from rushlight.ir.opdef import OpDef


class Form:
    """What a call's gradient depends on besides values: one object for equal calls.

    targets  (shape, dtype) of each input tensor before promotion
    recipes  see fn_recipe.py
    """

    __slots__ = ("record", "attrs", "source_likes", "targets", "likes", "recipes")

    def __init__(
        self, record: OpDef, attrs: tuple, source_likes: tuple, targets: tuple, like: tuple
    ) -> None:
        self.record, self.attrs, self.source_likes = record, attrs, source_likes
        self.targets, self.likes = targets, (like,)
        self.recipes: dict[tuple, Any] = {}


_FORMS: dict[tuple, Form] = {}
MOST_FORMS = 1 << 14


def form_of(record: OpDef, attrs: tuple, source_likes: tuple, targets: tuple, like: tuple) -> Form:
    """The Form of these parts."""
    key = (record.name, attrs, source_likes, targets, like)
    form = _FORMS.get(key)
    if form is None or form.record is not record:
        if len(_FORMS) >= MOST_FORMS:
            _FORMS.clear()
        form = _FORMS[key] = Form(record, attrs, source_likes, targets, like)
    return form


class RecordFn(GradFn):
    """The gradient of one record call."""

    __slots__ = ("form", "saved", "saved_out", "released")

    def __init__(self, form: Form, edges: Sequence[Any], label: str) -> None:
        # As GradFn.__init__, which most programs would call more often than all else here.
        self.edges, self.likes, self.label = tuple(edges), form.likes, label
        self.sequence = next(SEQUENCE)
        self.hooks = self.retains = self.pre_hooks = self.post_hooks = self.metadata_ = None
        self.spent = self.released = False
        self.form = form
        self.saved: dict[int, Saved] = {}
        self.saved_out: Saved | None = None
        if STATE.anomaly:
            self.metadata_ = {"traceback_": forward_call()}

    @property
    def record(self) -> OpDef:
        return self.form.record

    @property
    def attrs(self) -> tuple:
        return self.form.attrs

    @property
    def source_likes(self) -> tuple:
        return self.form.source_likes

    @property
    def targets(self) -> tuple:
        return self.form.targets

    def _sources(self) -> list[Node]:
        """Saved nodes, and placeholders where the rule reads no value."""
        if self.released and (self.saved is None or self.saved_out is None):
            raise RuntimeError(SECOND_TIME)
        return [
            self.saved[i].node() if i in self.saved else placeholder(*like)
            for i, like in enumerate(self.source_likes)
        ]

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        if self.released:
            raise RuntimeError(SECOND_TIME)
        if not create_graph:
            nodes = grads_of(self, TENSORS.value(grads[0]))
            return [None if node is None else TENSORS.make(node) for node in nodes]
        sources = self._sources()
        out = self.saved_out.node() if self.saved_out is not None else placeholder(*self.likes[0])
        return self._apply_recorded(grads[0], sources, out)

    def _apply_recorded(self, g: Any, sources: list[Node], out: Node) -> list[Any]:
        needs = [edge is not None for edge in self.edges]
        needs += [False] * (len(sources) - len(needs))
        inputs = [placeholder(*like) for like in self.source_likes]
        out_in, g_in = placeholder(*self.likes[0]), placeholder(*self.likes[0])
        found = operand_grads(self.record, self.attrs, inputs, out_in, g_in, needs)
        found = [
            None if node is None else fit(node, *target)
            for node, target in zip(found, self.targets, strict=False)
        ]
        graph = GraphFn((*inputs, out_in, g_in), found)
        edges = [*self.edges, *[None] * (len(sources) - len(self.edges)), (self, 0)]
        targets = [*self.targets, *self.source_likes[len(self.targets) :], self.likes[0]]
        return run_graph(
            graph, [*sources, out, TENSORS.value(g)], [*edges, TENSORS.edge(g)],
            [*targets, self.likes[0]], f"{self.name().removesuffix('0')}Backward0",
        )  # fmt: skip

    def release(self) -> None:
        if self.saved or self.saved_out is not None:
            self.saved, self.saved_out, self.released = {}, None, True


def run_graph(
    graph: GraphFn, nodes: list[Node], edges: list[Any], targets: list[Any], label: str
) -> list[Any]:
    """Apply a GraphFn as one recorded multi-output op; gives Tensors."""
    outputs = graph.instantiate(nodes)
    tensors = [None if node is None else TENSORS.make(node) for node in outputs]
    used = {id(node) for node in graph.order}
    edges = [e if id(p) in used else None for e, p in zip(edges, graph.inputs, strict=True)]
    if STATE.grad and any(edge is not None for edge in edges):
        likes = [(n.shape, n.dtype) for n in outputs if n is not None]
        fn = GraphGradFn(graph, nodes, edges, targets, likes, label)
        present = [t for t in tensors if t is not None]
        for position, tensor in enumerate(present):
            TENSORS.attach(tensor, fn, position)
    return tensors


class GraphGradFn(GradFn):
    """The gradient of a GraphFn (a recorded gradient rule): how double backward works."""

    __slots__ = ("graph", "saved", "targets")

    def __init__(
        self, graph: GraphFn, nodes: list[Node], edges: list[Any], targets: list[Any],
        likes: list[Any], label: str,
    ) -> None:  # fmt: skip
        super().__init__(edges, likes, label)
        self.graph, self.targets = graph, targets
        used = {id(node) for node in graph.order}
        self.saved: list[Any] | None = [
            hold(n) if id(p) in used else None for n, p in zip(nodes, graph.inputs, strict=True)
        ]

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        if self.saved is None:
            raise RuntimeError(SECOND_TIME)
        needs = tuple(edge is not None for edge in self.edges)
        backward = self.graph.vjp(needs)
        nodes = [
            placeholder(p.shape, p.dtype) if s is None else s.node
            for s, p in zip(self.saved, self.graph.inputs, strict=True)
        ]
        given = [
            zeros(*like) if g is None else TENSORS.value(g)
            for g, like in zip(grads, self.likes, strict=True)
        ]
        if not create_graph:
            found = backward.instantiate([*nodes, *given])
            return [
                None if node is None else TENSORS.make(fit(node, *target))
                for node, target in zip(found, self.targets, strict=True)
            ]
        edges = [*self.edges, *[None if g is None else TENSORS.edge(g) for g in grads]]
        targets = [*self.targets, *self.likes]
        found = run_graph(backward, [*nodes, *given], edges, targets, self.name())
        return [_cast_like(t, target) for t, target in zip(found, self.targets, strict=True)]

    def release(self) -> None:
        self.saved = None


def _cast_like(tensor: Any, target: Any) -> Any:
    if tensor is None or tensor.dtype is target[1]:
        return tensor
    return tensor.to(target[1])
