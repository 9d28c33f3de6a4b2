"""Gradient functions: the tape. One object per recorded call.

A function knows its edges (where the gradient of each input goes), what it saved (registered
holders, so that a flush keeps or recomputes the value), and in which order it was made.
Reading a value never changes the tape: saved nodes become memory, the functions stay.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.anomaly import forward_call
from rushlight.autograd.fn_recipe import grads_of
from rushlight.autograd.graph import (
    GraphFn,
    decompose,
    fit,
    operand_grads,
    placeholder,
    zeros,
)  # fmt: skip
from rushlight.autograd.mode import STATE
from rushlight.autograd.protocol import TENSORS
from rushlight.ir.node import Node
from rushlight.ir.opdef import FROM_DECOMPOSITION, OpDef

_SEQUENCE = itertools.count()
SECOND_TIME = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class GradFn:
    """Base of all. `likes`: (shape, dtype) of each output; `edges`: one per input."""

    __slots__ = (
        "edges", "sequence", "likes", "label", "hooks", "retains", "pre_hooks", "post_hooks",
        "metadata_", "spent", "__weakref__",
    )  # fmt: skip

    def __init__(self, edges: Sequence[Any], likes: Sequence[Any], label: str = "") -> None:
        self.edges, self.likes, self.label = tuple(edges), tuple(likes), label
        self.sequence = next(_SEQUENCE)
        self.hooks: dict[int, dict] | None = None  # output number -> tensor hooks
        self.retains: dict[int, Any] | None = None  # output number -> weak tensor
        self.pre_hooks: dict | None = None
        self.post_hooks: dict | None = None
        self.metadata_: dict | None = None
        self.spent = False  # a backward without retain_graph went through it
        if STATE.anomaly:
            self.metadata_ = {"traceback_": forward_call()}

    def name(self) -> str:
        return self.label or type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple:
        return tuple(edge if edge is not None else (None, 0) for edge in self.edges)

    @property
    def metadata(self) -> dict:
        if self.metadata_ is None:
            self.metadata_ = {}
        return self.metadata_

    def _sequence_nr(self) -> int:
        return self.sequence

    def register_hook(self, hook: Callable) -> RemovableHandle:
        if self.post_hooks is None:
            self.post_hooks = {}
        return RemovableHandle(self.post_hooks, hook)

    def register_prehook(self, hook: Callable) -> RemovableHandle:
        if self.pre_hooks is None:
            self.pre_hooks = {}
        return RemovableHandle(self.pre_hooks, hook)

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        """Gradients (Tensors or None) of the inputs from those of the outputs."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of what was saved (after a backward without retain_graph)."""


class SpentFn(GradFn):
    """Of a value whose backward has run in a replayed call: there is nothing to go through."""

    __slots__ = ()

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        raise RuntimeError(SECOND_TIME)


class RemovableHandle:
    """`remove()` takes a hook away again."""

    _ids = itertools.count()

    def __init__(self, hooks: dict, hook: Callable) -> None:
        self.id = next(RemovableHandle._ids)
        self._hooks = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class Saved:
    """One saved value: the node, and the version its tensor had."""

    __slots__ = ("holder", "counter", "version", "output_of", "packed", "unpack")

    def __init__(self, node: Node, counter: Any, output_of: Any) -> None:
        self.packed = self.unpack = None
        if STATE.pack_hooks:
            pack, self.unpack = STATE.pack_hooks[-1]
            tensor = TENSORS.make(node)
            self.packed, self.holder = pack(tensor), None
        else:
            self.holder = hold(node)
        self.counter = counter
        self.version = counter.version if counter is not None else 0
        self.output_of = output_of

    def node(self) -> Node:
        if self.counter is not None and self.counter.version != self.version:
            raise RuntimeError(self._modified())
        if self.unpack is not None:
            return TENSORS.value(self.unpack(self.packed))
        assert self.holder is not None  # kept unless hooks packed the value
        return self.holder.node

    def _modified(self) -> str:
        node = self.holder.node if self.holder is not None else TENSORS.value(self.packed)
        where = ""
        owner = self.output_of() if self.output_of is not None else None
        fn = owner if isinstance(owner, GradFn) or owner is None else owner.grad_fn
        if fn is not None:
            number = 0 if fn is owner else owner.output_nr  # type: ignore[union-attr]
            where = f", which is output {number} of {fn.name().removesuffix('Backward0')},"
        return (
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{type_name(node)} {list(node.shape)}]{where} is at version "
            f"{self.counter.version}; expected version {self.version} instead. Hint: enable "
            "anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False)."
        )


def hold(node: Node) -> Any:
    """A holder that flushes know, so that the memory is kept. A number needs none."""
    return _Plain(node) if node.leaf in ("const", "scalar") else TENSORS.hold(node)


class _Plain:
    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


def type_name(value: Any) -> str:
    """torch.FloatTensor and so on."""
    return f"torch.{value.dtype.scalar_name}Tensor"


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
        self.sequence = next(_SEQUENCE)
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


class AccumulateGrad(GradFn):
    """The end of the tape at a leaf: adds to its `.grad`."""

    __slots__ = ("variable",)

    def __init__(self, variable: Any) -> None:
        super().__init__(
            (), ((variable._shape, variable.dtype),), "torch::autograd::AccumulateGrad"
        )
        self.variable = variable
        self.sequence = 1 << 62  # before everything else that is ready

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        if grads[0] is not None:
            TENSORS.accumulate(self.variable, grads[0])
        return ()


class ErrorFn(GradFn):
    """An output whose gradient must not be asked for."""

    __slots__ = ("message",)

    def __init__(
        self, edges: Sequence[Any], likes: Sequence[Any], label: str, message: str
    ) -> None:
        super().__init__(edges, likes, label)
        self.message = message

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        raise RuntimeError(self.message)


def weak(fn: GradFn) -> Any:
    return weakref.ref(fn)


__all__ = [
    "AccumulateGrad", "ErrorFn", "FROM_DECOMPOSITION", "GradFn", "GraphGradFn", "RecordFn",
    "RemovableHandle", "Saved", "decompose", "run_graph", "type_name", "weak",
]  # fmt: skip
