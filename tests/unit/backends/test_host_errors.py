"""What a host function raises while a plan runs: the same error on every backend."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.base.config import config


@pytest.mark.parametrize("backend", ["llvm", "interp"])
def test_refused_matrix_names_the_line(backend):
    with config.override(backend=backend):
        singular = torch.zeros(3, 3)
        with pytest.raises(torch.linalg.LinAlgError, match=r"recorded at .*test_host_errors\.py"):
            torch.linalg.inv(singular)


@pytest.mark.parametrize("backend", ["llvm", "interp"])
def test_refused_matrix_leaves_what_was_changed_after_it(backend):
    with config.override(backend=backend):
        kept = torch.ones(2)
        kept += 1
        with pytest.raises(torch.linalg.LinAlgError):
            torch.linalg.cholesky(-torch.eye(2))
        assert kept.tolist() == [2.0, 2.0]
