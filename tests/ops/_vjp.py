"""A tiny reverse mode over the records' rules, independent of rushlight.autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
from _graph import with_rules

from rushlight.ir.node import Node, topological
from rushlight.ir.opdef import NotDifferentiable
from rushlight.ops import Meta, add, cast, full
from rushlight.ops.build import sum_to_shape
from rushlight.testing.calls import Built


def vjp(root: Node, cotangent: Node, inputs: list[Node]) -> list[Node | None]:
    """The gradient of sum(root * cotangent) for each input."""
    root = with_rules(root)
    order = topological([root])
    needed = set(inputs)
    for node in order:
        if any(s in needed for s in node.src) and node.dtype.is_inexact:
            needed.add(node)
    grads: dict[Node, Node] = {root: cotangent}
    for node in reversed(order):
        if node in inputs or node.leaf or node not in grads or node not in needed:
            continue
        for source, grad in operand_grads(node, grads[node], needed):
            if source in needed:
                grads[source] = add(grads[source], grad) if source in grads else grad
    return [grads.get(node) for node in inputs]


def operand_grads(node: Node, g: Node, needed: set[Node]) -> list[tuple[Node, Node]]:
    record = node.op
    if isinstance(record.grad, NotDifferentiable):
        return []
    call = record.call_of(node)
    names = set()
    for param in record.params:
        value = call[param.name]
        nodes = value if isinstance(value, list) else [value]
        if param.kind == "tensor" and any(isinstance(n, Node) and n in needed for n in nodes):
            names.add(param.name)
    given: dict[str, Any] = {"g": g, "out": node, "meta": Meta(call, node.shape, node.dtype, names)}
    grads = record.grad(
        **{name: given[name] if name in given else call[name] for name in record.reads}
    )
    assert isinstance(grads, tuple), f"{record.name}: a rule returns a tuple"
    found = []
    tensors = [p for p in record.params if p.kind == "tensor"]
    for param, grad in zip(tensors, grads, strict=False):
        operand = call[param.name]
        pairs = zip(operand, grad or (), strict=False) if param.variadic else [(operand, grad)]
        for source, part in pairs:
            if part is not None and source is not None and source in needed:
                part = sum_to_shape(part, part.shape, source.shape)
                if part.dtype is not source.dtype:
                    assert part.dtype is source.dtype.compute, f"{record.name}: {part.dtype}"
                    part = cast(part, source.dtype)
                found.append((source, part))
    return found


WIDE = ("float64", "complex128")


def cotangent(shape: tuple, dtype: Any, seed: int = 1) -> np.ndarray:
    """Weights near 1 for the elements of a result; complex where it is."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, shape)
    return weights + 1j * rng.uniform(-1, 1, shape) if dtype.is_complex else weights


def numeric(built: Built, node: Node, weights: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of the real part of sum(out * conj(weights)) with respect to one operand:
    d/dx, and d/dx + i d/dy for a complex one."""
    start = built.arrays[node]
    result = np.zeros(start.shape, start.dtype)
    symmetric = "symmetric" in built.sample.skip
    for at in np.ndindex(start.shape):
        for unit in (1, 1j) if start.dtype.kind == "c" else (1,):
            change = np.zeros(start.shape, start.dtype)
            change[at] = unit
            if symmetric:
                change = (change + np.swapaxes(change, -1, -2).conj()) / 2
            values = []
            for sign in (1, -1):
                built.arrays[node] = start + sign * step * change
                values.append(float((built.run(built.node)[0] * weights.conj()).sum().real))
            result[at] += unit * (values[0] - values[1]) / (2 * step)
    built.arrays[node] = start
    return result


def ones_like(node: Node) -> Node:
    return full(node.shape, 1, node.dtype)
