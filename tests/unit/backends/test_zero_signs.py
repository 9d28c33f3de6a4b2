"""The sign of a zero maximum does not depend on the layout: +0 is greater than -0."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch


@pytest.mark.parametrize("backend", ["llvm", "interp"])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_zero_extremes_are_the_same_along_rows_and_columns(backend, name):
    from rushlight.base.config import config

    pick = np.random.default_rng(0)
    rows = pick.choice(np.array([0.0, -0.0], np.float32), (67, 5))
    with config.override(backend=backend):
        along = getattr(torch.tensor(rows.tolist()), name)(1)
        across = getattr(torch.tensor(rows.T.tolist()), name)(0)
        found = [np.signbit(along.numpy()).tolist(), np.signbit(across.numpy()).tolist()]
    wanted = np.signbit(rows).all(1) if name == "amax" else np.signbit(rows).any(1)
    assert found == [wanted.tolist()] * 2
