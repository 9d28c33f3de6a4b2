"""Small reductions are written out, with the bits of the reduction; those of rows are not."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight import ops
from rushlight.base.dtypes import float32
from rushlight.compiler.graph import unroll_reductions as unroll
from rushlight.engine import realize
from rushlight.ir.node import buffer_node, topological


def names(root) -> set[str]:
    return {node.name for node in topological([root])}


def test_a_reduction_of_a_few_elements_becomes_elementwise():
    x = buffer_node(None, (64, 4), float32)
    (root,) = unroll.unroll_reductions([ops.reduce_max(x, (1,))])
    assert "reduce_max" not in names(root) and "maximum" in names(root)


def test_long_reductions_and_those_of_rows_stay():
    x = buffer_node(None, (64, 40), float32)
    assert "reduce_sum" in names(unroll.unroll_reductions([ops.reduce_sum(x, (1,))])[0])
    y = buffer_node(None, (64, 4), float32)
    total = ops.expand(ops.reshape(ops.reduce_sum(y, (1,)), (64, 1)), (64, 4))
    assert "reduce_sum" in names(unroll.unroll_reductions([ops.div(y, total)])[0])


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "argmax", "argmin"])
def test_bits_are_those_of_the_reduction(name, monkeypatch):
    values = np.random.default_rng(1).standard_normal((50, 7)).astype(np.float32)
    values[3, 2], values[4], values[5, 1], values[6] = np.nan, -0.0, np.inf, [0, -0.0] * 3 + [0]
    found = []
    for limit in (unroll.MAX_ELEMENTS, 0):
        monkeypatch.setattr(unroll, "MAX_ELEMENTS", limit)
        monkeypatch.setattr(realize, "PROGRAMS", type(realize.PROGRAMS)())
        found.append(getattr(torch.tensor(values.tolist()), name)(1).numpy().tobytes())
    assert found[0] == found[1]
