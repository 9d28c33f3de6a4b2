"""The meaning of a graph: evaluate nodes one by one with the `reference` of their records.

For tests and debugging only; no execution path uses it. Float results agree with compiled ones
within a tolerance, integer ones exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.base.dtypes import complex32, complex64, convert_array
from rushlight.ir.node import Node, topological
from rushlight.ir.opdef import OpDef

LOW_PRECISION = ("bfloat16", "float16")


def interpret(roots: Sequence[Node], read: Callable[[Node], np.ndarray]) -> list[np.ndarray]:
    """Arrays of the roots. `read(leaf)` gives the array of a buffer leaf."""
    values: dict[Node, np.ndarray] = {}
    for node in topological(list(roots)):
        if node.leaf == "buffer":
            values[node] = read(node)
        elif node.leaf:
            values[node] = convert_array(np.asarray(node.attrs[0]), node.dtype)
        else:
            values[node] = _apply(node, values)
    return [values[root] for root in roots]


def _apply(node: Node, values: dict[Node, np.ndarray]) -> np.ndarray:
    record = node.op
    assert record is not None and record.reference is not None
    positional, attrs = arguments(record, node, lambda source: _widen(values[source]))
    with np.errstate(all="ignore"):
        result = np.asarray(record.reference(*positional, **attrs))
    if result.shape != node.shape:
        raise AssertionError(f"{record.name}: reference gives {result.shape}, rule {node.shape}")
    return np.ascontiguousarray(convert_array(result, node.dtype)).reshape(result.shape)


def arguments(
    record: OpDef, node: Any, value_of: Callable[[Any], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """What a `reference` is called with; `node` has the sources and the attributes of the call."""
    call = record.call_of(node)
    positional: list[Any] = []
    attrs: dict[str, Any] = {}
    for param in record.params:
        arg = call.named[param.name]
        if param.is_attr:
            attrs[param.name] = arg
        elif param.variadic:
            positional.append([value_of(item) for item in arg])
        else:
            positional.append(None if arg is None else value_of(arg))
    return positional, attrs


def _widen(array: np.ndarray) -> np.ndarray:
    """bfloat16 and float16 compute in float32, pairs of halves in complex64."""
    if array.dtype == complex32.np:
        return convert_array(array, complex64)
    return array.astype(np.float32) if array.dtype.name in LOW_PRECISION else array
