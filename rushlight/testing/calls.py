"""Calls of op records from their samples: what all tests that are generated from the op table use.

In: a record, one of its samples, a dtype for float operands. Out: the node of the call, and the
arrays behind its leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import dtype_of_numpy
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node, buffer_node
from rushlight.ir.opdef import OpDef
from rushlight.ir.text import short_name
from rushlight.ops.samples import Sample


class Built:
    """A sample's operands as buffer nodes, the node of the call, and the arrays they hold.

    `dtype`: float operands become this; `whole`: integer operands become that; None: they stay as
    the sample has them.
    """

    def __init__(self, record: OpDef, sample: Sample, dtype: Any = None, whole: Any = None) -> None:
        self.record, self.sample, self.whole = record, sample, whole
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
        self.attrs = dict(sample.attrs)
        if sample.typed is not None:
            self.attrs |= sample.typed(short_name(next(iter(self.arrays)).dtype))
        self.node: Node = record.node(**self.inputs, **self.attrs)

    def leaf(self, value: Any, dtype: Any = None) -> Node:
        array = np.asarray(value)
        if dtype is not None and array.dtype.kind == "f":
            array = array.astype(dtype)
        elif dtype is not None and self.whole is not None and array.dtype.kind in "iu":
            array = array.astype(self.whole)
        node = buffer_node(None, array.shape, dtype_of_numpy(array.dtype))
        self.arrays[node] = array
        return node

    def run(self, *roots: Node) -> list[np.ndarray]:
        """The values of nodes over these leaves, by the references of their records."""
        return interpret(roots, self.arrays.__getitem__)

    def operands(self) -> list[tuple[str, Node]]:
        """(parameter, node) of the tensor operands, lists flattened."""
        found = []
        for param in self.record.params:
            node = self.inputs.get(param.name)
            if param.kind == "tensor" and node is not None:
                found += [(param.name, n) for n in (node if param.variadic else [node])]
        return found


def samples_of(record: OpDef) -> list[Sample]:
    """The record's samples, the same ones every time."""
    assert record.samples is not None
    return record.samples(np.random.default_rng(sum(map(ord, record.name))))
