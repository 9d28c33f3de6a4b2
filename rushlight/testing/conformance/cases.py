"""The cases: every op record in every dtype it takes, and one graph per kind of tile program.

In: nothing but the op table. Out: `Case`s, whose `build()` gives roots over leaves that hold their
values. Always true: a case is the same graph with the same values every time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rushlight.base.dtypes import ALL_DTYPES, DType, dtype_of_numpy
from rushlight.ir.node import Node, buffer_node, make_node, topological
from rushlight.ir.opdef import OpDef, all_ops
from rushlight.runtime.buffer import allocate
from rushlight.testing.calls import Built, samples_of
from rushlight.testing.conformance.templates import TEMPLATES

# Composites are made of the primitives: the dtypes in which people use them will do.
COMPOSITE_DTYPES = ("float32", "float64", "bfloat16", "float16", "int64")

SEED = 20  # of samples


@dataclass(frozen=True)
class Case:
    """`group`: "record" or "template". `dtype`: of the operands that may have any."""

    group: str
    name: str
    dtype: str
    build: Callable[[], list[Node]]


def record_cases(record: OpDef) -> list[Case]:
    """One case per dtype that the record takes: all its samples as one graph."""
    primitive = record.kind not in ("composite", "host")
    dtypes = [d for d in ALL_DTYPES if primitive or d.name in COMPOSITE_DTYPES]
    return [
        Case("record", record.name, dtype.name, lambda dtype=dtype: _calls(record, dtype))
        for dtype in dtypes
        if _takes(record, dtype)
    ]


def template_cases() -> list[Case]:
    """One case per kind of tile program and shape of it that a backend may treat differently."""
    return [
        Case("template", name, "", lambda build=build: build(_Leaves()))
        for name, build in TEMPLATES.items()
    ]


def _takes(record: OpDef, dtype: DType) -> bool:
    """Can the record be called in this dtype, and does it matter?"""
    return any(dtype in {node.dtype for node in built.arrays} for built in _builds(record, dtype))


def _builds(record: OpDef, dtype: DType) -> Iterator[Built]:
    """The calls of the samples that make sense in this dtype."""
    whole = dtype.np if record.kind in ("elementwise", "reduce", "scan", "sort") else None
    for sample in samples_of(record):
        try:
            yield Built(record, sample, dtype.np, whole if dtype.is_integral else None)
        except (TypeError, RuntimeError, ValueError, KeyError):
            continue  # the record's own checks say no


def _calls(record: OpDef, dtype: DType) -> list[Node]:
    roots = []
    for built in _builds(record, dtype):
        held = {node: leaf(array) for node, array in built.arrays.items()}
        roots.append(_moved(built.node, held))
    return roots


def leaf(array: np.ndarray) -> Node:
    """A leaf with memory that holds these values."""
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    memory = allocate(array.nbytes)
    np.asarray(memory)[: array.nbytes] = array.reshape(-1).view(np.uint8)
    return buffer_node(memory, array.shape, dtype_of_numpy(array.dtype))


def _moved(root: Node, held: dict[Node, Node]) -> Node:
    """The graph over other leaves."""
    new = dict(held)
    for node in topological([root], stop=new.__contains__):
        if node not in new:
            src = tuple(new[s] for s in node.src)
            new[node] = (
                node
                if node.leaf or src == node.src
                else make_node(node.op, src, node.attrs, node.shape, node.dtype)
            )
    return new[root]


class _Leaves:
    """What the templates get: leaves with random values."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(11)

    def of(self, array: np.ndarray) -> Node:
        return leaf(array)

    def normal(self, *shape: int, dtype: str = "float32") -> Node:
        return leaf(self.rng.standard_normal(shape).astype(dtype))

    def uniform(self, low: float, high: float, *shape: int, dtype: str = "float32") -> Node:
        return leaf(self.rng.uniform(low, high, shape).astype(dtype))

    def ints(self, high: int, *shape: int) -> Node:
        return leaf(self.rng.integers(0, high, shape))


def all_record_cases(count: int = 0) -> list[Case]:
    """The cases of all records; `count`: so many of them, the same at every run (0: all)."""
    cases = [case for record in all_ops().values() for case in record_cases(record)]
    return random.Random(SEED).sample(cases, count) if 0 < count < len(cases) else cases
