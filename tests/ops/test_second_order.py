"""Gradients of gradients: every rule is made of records that can be differentiated again."""

from __future__ import annotations

import numpy as np
import pytest
from _vjp import WIDE, cotangent, vjp

from rushlight.ir.node import Node
from rushlight.ir.opdef import NotDifferentiable, all_ops
from rushlight.ops import add, conj, mul, real, reduce_sum
from rushlight.testing.calls import Built, samples_of

CHECKED = 8  # elements of each operand
# Gradients on symmetric matrices only.
LEAVE_OUT = set("cholesky eigh".split())
RECORDS = [
    r
    for r in all_ops().values()
    if not isinstance(r.grad, NotDifferentiable) and r.name not in LEAVE_OUT
]


def total(values: list[Node], weights: list[Node]) -> Node:
    """The sum of all values, weighted (for complex ones its real part)."""
    result = None
    for value, weight in zip(values, weights, strict=True):
        is_complex = value.dtype.is_complex
        part = real(mul(value, conj(weight))) if is_complex else mul(value, weight)
        part = reduce_sum(part, tuple(range(part.ndim))) if part.ndim else part
        result = part if result is None else add(result, part)
    return result


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.name)
def test_second_gradient_agrees_with_finite_differences(record):
    for sample in samples_of(record)[:2]:
        built = Built(record, sample)
        if built.node.dtype.name not in WIDE:
            continue
        g = built.leaf(cotangent(built.node.shape, built.node.dtype, 3))
        inputs = [
            n for name, n in built.operands() if n.dtype.name in WIDE and name not in sample.skip
        ]
        first = [x for x in vjp(built.node, g, inputs) if x is not None]
        if not first:
            continue
        weights = [built.leaf(cotangent(x.shape, x.dtype, i)) for i, x in enumerate(first)]
        root = total(first, weights)
        one = built.leaf(np.ones(()))
        second = vjp(root, one, [*inputs, g])
        for node, grad in zip([*inputs, g], second, strict=True):
            want = differences(built, root, node)
            have = np.zeros_like(want) if grad is None else built.run(grad)[0]
            want, have = want.reshape(-1)[:CHECKED], have.reshape(-1)[:CHECKED]
            scale = max(1.0, np.abs(want).max(initial=0))
            np.testing.assert_allclose(have / scale, want / scale, rtol=1e-4, atol=1e-5)


def differences(built: Built, root: Node, node: Node, step: float = 1e-6) -> np.ndarray:
    start = built.arrays[node]
    result = np.zeros_like(start)
    for at in list(np.ndindex(start.shape))[:CHECKED]:
        for unit in (1, 1j) if start.dtype.kind == "c" else (1,):
            values = []
            for sign in (1, -1):
                moved = start.copy()
                moved[at] += sign * step * unit
                built.arrays[node] = moved
                values.append(float(built.run(root)[0]))
            result[at] += unit * (values[0] - values[1]) / (2 * step)
    built.arrays[node] = start
    return result
