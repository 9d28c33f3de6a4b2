"""Helpers of the record tests: expand composites, compare values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from rushlight.base.dtypes import DType, float32
from rushlight.ir.node import Node, make_node, topological
from rushlight.ir.opdef import FROM_DECOMPOSITION, OpDef
from rushlight.ops import cast


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
