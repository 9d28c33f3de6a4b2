"""FlexAttention, the fused loss and a residual network compute the same on every backend."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rushlight.backends import find_backend
from rushlight.base.config import config
from rushlight.compiler.target import Missing

sys.path.insert(0, str(Path(__file__).parent))
from articles_on_backends import RUNS  # noqa: E402

WRONG_ON_LAVAPIPE = (
    "gradients of max pooling and batch norm, on lavapipe of Mesa 22.3; not understood"
)
BACKENDS = ["c", "interp", "opencl", "metal", "wgsl", "triton"]


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("what", RUNS)
def test_forward_and_backward_are_those_of_llvm(what: str, name: str, request) -> None:
    if (what, name) == ("resnet", "wgsl"):
        request.node.add_marker(pytest.mark.xfail(strict=True, reason=WRONG_ON_LAVAPIPE))
    with config.override(metal_emulation=True, triton_interpret=True):
        caps = find_backend(name).find()
        if isinstance(caps, Missing):
            pytest.skip(f"{name}: {caps.reason}")
        with config.override(backend="llvm"):
            wanted = RUNS[what]()
        with config.override(backend=name):
            found = RUNS[what]()
    for key, value in wanted.items():
        if caps.exact:
            assert found[key].tobytes() == value.tobytes(), key
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-5, err_msg=key)
    assert all(np.abs(value).max() > 0 for value in wanted.values())
