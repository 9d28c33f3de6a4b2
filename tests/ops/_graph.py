"""Helpers of the record tests: build a call from a sample, expand composites, run graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from rushlight.base.dtypes import DType, dtype_of_numpy, float32
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node, buffer_node, make_node, topological
from rushlight.ir.opdef import FROM_DECOMPOSITION, OpDef
from rushlight.ops import cast
from rushlight.ops.samples import Sample


class Built:
    """A sample's operands as buffer nodes, the node of the call, and the arrays they hold."""

    def __init__(self, record: OpDef, sample: Sample, dtype: Any = None) -> None:
        self.record, self.sample = record, sample
        self.arrays: dict[Node, np.ndarray] = {}
        self.inputs: dict[str, Any] = {}
        named = [p for p in record.params if not p.is_attr]
        for param, arg in zip(named, sample.args, strict=False):
            if param.variadic:
                self.inputs[param.name] = [self.leaf(item, dtype) for item in arg]
            elif arg is None:
                self.inputs[param.name] = None
            else:
                keep = None if param.kind == "value" else dtype
                self.inputs[param.name] = self.leaf(arg, keep)
        self.node: Node = record.node(**self.inputs, **sample.attrs)

    def leaf(self, value: Any, dtype: Any = None) -> Node:
        array = np.asarray(value)
        if dtype is not None and array.dtype.kind == "f":
            array = array.astype(dtype)
        node = buffer_node(None, array.shape, dtype_of_numpy(array.dtype))
        self.arrays[node] = array
        return node

    def run(self, *roots: Node) -> list[np.ndarray]:
        return interpret(roots, self.arrays.__getitem__)

    def operands(self) -> list[tuple[str, Node]]:
        """(parameter, node) of the tensor operands, lists flattened."""
        found = []
        for param in self.record.params:
            node = self.inputs.get(param.name)
            if param.kind == "tensor" and node is not None:
                found += [(param.name, n) for n in (node if param.variadic else [node])]
        return found


def expand_where(root: Node, wanted: Callable[[OpDef], bool]) -> Node:
    """Replace every wanted composite by its decomposition, until none is left."""
    done: dict[Node, Node] = {}
    return _expand(root, wanted, done)


def _expand(root: Node, wanted: Callable[[OpDef], bool], done: dict[Node, Node]) -> Node:
    for node in topological([root], stop=done.__contains__):
        if node in done:
            continue
        if node.leaf:
            done[node] = node
            continue
        src = tuple(done[s] for s in node.src)
        again = make_node(node.op, src, node.attrs, node.shape, node.dtype)
        if node.op.decompose is not None and wanted(node.op):
            again = _expand(decomposed(again), wanted, done)
        done[node] = again
    return done[root]


def widen(value: Any) -> Any:
    if isinstance(value, list):
        return [widen(item) for item in value]
    if isinstance(value, Node) and value.dtype.compute is not value.dtype:
        return cast(value, float32)
    return value


def decomposed(node: Node) -> Node:
    """One step: the record's decomposition, in float32 where the record asks for it."""
    named = node.op.call_of(node).named
    if node.op.compute_f32:
        named = {name: widen(value) for name, value in named.items()}
    result = node.op.decompose(**named)
    assert result.shape == node.shape, f"{node.op.name}: decomposes to {result.shape}"
    if result.dtype is not node.dtype:
        assert result.dtype is node.dtype.compute, f"{node.op.name}: gives {result.dtype}"
        result = cast(result, node.dtype)
    return result


def primitives(root: Node) -> Node:
    return expand_where(root, lambda op: True)


def with_rules(root: Node) -> Node:
    """Only records with a gradient rule of their own are left."""
    return expand_where(root, lambda op: op.grad is FROM_DECOMPOSITION)


def close(a: np.ndarray, b: np.ndarray, dtype: DType, scale: float = 1.0) -> None:
    limit = {"float64": 1e-9, "float32": 3e-5, "bfloat16": 2e-2, "float16": 3e-3}.get(dtype.name, 0)
    wide = [x.astype(np.float64) if x.dtype == ml_dtypes.bfloat16 else x for x in (a, b)]
    np.testing.assert_allclose(*wide, rtol=limit * scale, atol=limit * scale)
