"""Gradients as graphs: functions over Nodes, and their vector-Jacobian products.

A `GraphFn` is a function written as a graph between placeholder leaves and output nodes. It can be
put on other inputs (`instantiate`) and differentiated (`vjp`, again a GraphFn), so gradients of any
order come from the `grad` rules of primitives alone.

Why placeholders: two operands of a call may be nodes of one graph (y = x + 1 and a decomposition
that computes x + 1 itself, interned to the same node). Only fresh leaves keep them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from rushlight import names as _names
from rushlight import ops
from rushlight.autograd.graph_hooks import (  # noqa: F401  (this module is torch.autograd.graph)
    disable_saved_tensors_hooks,
    increment_version,
    register_multi_grad_hook,
    save_on_cpu,
)
from rushlight.autograd.mode import saved_tensors_hooks  # noqa: F401
from rushlight.base.dtypes import DType
from rushlight.ir.node import Node, buffer_node, const_node, make_node, topological
from rushlight.ir.opdef import FROM_DECOMPOSITION, Call, NotDifferentiable, OpDef
from rushlight.ops.meta import Meta

__getattr__ = _names.getattr_of(__name__)

Like = tuple[tuple, DType]  # what is known of a value without holding it


def placeholder(shape: tuple, dtype: DType) -> Node:
    return buffer_node(None, shape, dtype)


def zeros(shape: tuple, dtype: DType) -> Node:
    return ops.expand.node(const_node(0, dtype), shape) if shape else const_node(0, dtype)


class GraphFn:
    """outputs as a function of inputs. An output may be None (no gradient)."""

    __slots__ = ("inputs", "outputs", "order", "_vjps")

    def __init__(self, inputs: Sequence[Node], outputs: Sequence[Node | None]) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.order = topological([node for node in outputs if node is not None])
        self._vjps: dict[tuple[bool, ...], GraphFn] = {}

    def instantiate(self, actual: Sequence[Node]) -> list[Node | None]:
        """The outputs for other inputs of the same shapes and dtypes."""
        values: dict[int, Node] = {id(p): a for p, a in zip(self.inputs, actual, strict=True)}
        for node in self.order:
            if id(node) in values:
                continue
            if node.leaf:
                values[id(node)] = node
                continue
            src = tuple([values[id(s)] for s in node.src])
            values[id(node)] = make_node(node.op, src, node.attrs, node.shape, node.dtype)  # type: ignore[arg-type]
        return [None if node is None else values[id(node)] for node in self.outputs]

    def vjp(self, needs: tuple[bool, ...]) -> GraphFn:
        """(inputs..., one cotangent per output that is not None) -> gradient per input."""
        found = self._vjps.get(needs)
        if found is None:
            present = [node for node in self.outputs if node is not None]
            cotangents = [placeholder(node.shape, node.dtype) for node in present]
            grads = reverse(present, cotangents, self.inputs, needs)
            found = self._vjps[needs] = GraphFn((*self.inputs, *cotangents), grads)
        return found


def reverse(
    outputs: Sequence[Node], cotangents: Sequence[Node], inputs: Sequence[Node],
    needs: Sequence[bool],
) -> list[Node | None]:  # fmt: skip
    """Reverse accumulation over the nodes between inputs and outputs."""
    stops = {id(node) for node in inputs}
    active = {id(node) for node, need in zip(inputs, needs, strict=True) if need}
    order = topological(list(outputs), lambda node: id(node) in stops)
    for node in order:
        if node.dtype.is_inexact and any(id(s) in active for s in node.src):
            if id(node) not in stops:
                active.add(id(node))
    grads: dict[int, Node] = {}
    for node, cotangent in zip(outputs, cotangents, strict=True):
        _accumulate(grads, node, cotangent)
    for node in reversed(order):
        if id(node) in stops or node.leaf or id(node) not in active or id(node) not in grads:
            continue
        g = grads.pop(id(node))
        flags = [id(s) in active for s in node.src]
        found = operand_grads(node.op, node.attrs, node.src, node, g, flags)  # type: ignore[arg-type]
        for source, grad in zip(node.src, found, strict=True):
            if grad is not None and id(source) in active:
                _accumulate(grads, source, grad)
    return [grads.get(id(node)) if need else None for node, need in zip(inputs, needs, strict=True)]


def _accumulate(grads: dict[int, Node], node: Node, grad: Node) -> None:
    before = grads.get(id(node))
    grads[id(node)] = grad if before is None else ops.add.node(before, grad)


def operand_grads(
    record: OpDef, attrs: tuple, src: Sequence[Node], out: Node, g: Node, needs: Sequence[bool],
) -> list[Node | None]:  # fmt: skip
    """One gradient per source (None for values and where not needed), in the operand's shape."""
    rule = record.grad
    if rule is FROM_DECOMPOSITION:
        forward = composite_graph(record, attrs, [(n.shape, n.dtype) for n in src])
        needed = tuple(bool(need) and n.dtype.is_inexact
                       for n, need in zip(src, needs, strict=True))  # fmt: skip
        return forward.vjp(needed).instantiate([*src, g])[: len(src)]
    if isinstance(rule, NotDifferentiable):
        if not out.dtype.is_inexact:
            return [None] * len(src)
        raise RuntimeError(f"derivative for {record.name} is not implemented: {rule.reason}")
    call = record.call_of(SimpleNamespace(src=tuple(src), attrs=attrs))  # type: ignore[arg-type]
    names = operand_names(record, call)
    needed_names = {names[i] for i, need in enumerate(needs) if need and i < len(names)}
    arguments: dict[str, Any] = {}
    for name in record.reads:
        if name == "g":
            arguments[name] = g
        elif name == "out":
            arguments[name] = out
        elif name == "meta":
            arguments[name] = Meta(call, out.shape, out.dtype, needed_names)
        else:
            arguments[name] = call.named[name]
    grads = _flat(record, call, record.grad(**arguments))
    result: list[Node | None] = [None] * len(src)
    for i, grad in enumerate(grads):
        if grad is not None and needs[i]:
            result[i] = fit(grad, src[i].shape, src[i].dtype)
    return result


def values_read(
    record: OpDef, attrs: tuple, likes: Sequence[Like], like: Like, needs: Sequence[bool]
) -> tuple[frozenset[int], bool]:
    """What the gradients that are needed are made of: positions of sources, and the output?"""
    sources = [placeholder(*source) for source in likes]
    out, g = placeholder(*like), placeholder(*like)
    try:
        grads = operand_grads(record, attrs, sources, out, g, needs)
    except RuntimeError:  # what has no gradient says so when it is asked for one
        return frozenset(range(len(sources))), True
    used = set(topological([grad for grad in grads if grad is not None]))
    return frozenset(i for i, source in enumerate(sources) if source in used), out in used


def operand_names(record: OpDef, call: Call) -> list[str]:
    """The parameter name of each tensor source."""
    names: list[str] = []
    for param in record.params:
        if param.kind == "tensor":
            arg = call.named[param.name]
            names.extend([param.name] * (len(arg) if param.variadic else arg is not None))
    return names


def _flat(record: OpDef, call: Call, grads: Any) -> list[Node | None]:
    """Per parameter -> per source: lists of a variadic operand opened, absent operands left out."""
    grads = grads if isinstance(grads, tuple) else (grads,)
    flat: list[Node | None] = []
    waiting = list(grads)
    for param in record.params:
        if param.kind != "tensor":
            continue
        arg = call.named[param.name]
        if not param.variadic:
            grad = waiting.pop(0) if waiting else None
            if arg is not None:
                flat.append(grad)
        elif waiting and isinstance(waiting[0], list | tuple):
            flat.extend(waiting.pop(0))
        else:  # one entry per tensor of the list
            flat.extend((waiting + [None] * len(arg))[: len(arg)])
            waiting = waiting[len(arg) :]
    return flat


def fit(grad: Node, shape: tuple, dtype: DType) -> Node:
    """Sum a broadcast gradient to the operand's shape and give it the operand's dtype (of a complex
    gradient, a real operand gets the real part)."""
    if grad.shape != shape:
        lead = grad.ndim - len(shape)
        if lead >= 0:
            dims = [
                i for i in range(grad.ndim)
                if i < lead or (shape[i - lead] == 1 and grad.shape[i] != 1)
            ]  # fmt: skip
            if dims:
                grad = ops.reduce_sum.node(grad, tuple(dims))
        if grad.shape != shape:
            if grad.numel() == 1 or lead < 0:
                grad = ops.expand.node(grad, shape)
            else:
                grad = ops.reshape.node(grad, shape)
    return grad if grad.dtype is dtype else ops.cast.node(grad, dtype)


_COMPOSITES: dict[tuple, GraphFn] = {}


def composite_graph(record: OpDef, attrs: tuple, likes: Sequence[Like]) -> GraphFn:
    """The decomposition of a call as a function of its sources (kept for equal calls)."""
    key = (record.name, attrs, tuple(likes))
    found = _COMPOSITES.get(key)
    if found is None:
        if len(_COMPOSITES) > 4096:
            _COMPOSITES.clear()
        inputs = [placeholder(shape, dtype) for shape, dtype in likes]
        found = _COMPOSITES[key] = GraphFn(inputs, [decompose(record, attrs, inputs)])
    return found


def decompose(record: OpDef, attrs: tuple, src: Sequence[Node]) -> Node:
    """The record's decomposition on these sources, in its compute dtype, rounded once."""
    stand_in = SimpleNamespace(src=tuple(src), attrs=attrs)
    dtype = record.dtype(record.call_of(stand_in))  # type: ignore[arg-type]
    if record.compute_f32:
        src = [_widen(node) for node in src]
    call = record.call_of(SimpleNamespace(src=tuple(src), attrs=attrs))  # type: ignore[arg-type]
    out = record.decompose(**call.named)  # type: ignore[misc]
    return out if out.dtype is dtype else ops.cast.node(out, dtype)


def _widen(node: Node) -> Node:
    wide = node.dtype.compute
    return ops.cast.node(node, wide) if wide is not node.dtype else node
