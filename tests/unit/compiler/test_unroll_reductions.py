"""Small reductions are written out, with the bits of the reduction; those of rows are not."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.compiler.graph import unroll_reductions as unroll
from rushlight.engine import realize


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
