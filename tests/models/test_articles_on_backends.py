"""FlexAttention, the fused loss and a residual network compute the same on every backend."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight.backends import find_backend
from rushlight.backends.opencl import session_impl
from rushlight.backends.opencl.driver_impl import Driver, require_driver
from rushlight.base.config import config
from rushlight.compiler.target import Missing

sys.path.insert(0, str(Path(__file__).parent))
from articles_on_backends import RUNS  # noqa: E402

JUNK = np.uint8(0x7B)  # a large number in every float format
BACKENDS = ["c", "interp", "opencl", "metal", "wgsl", "triton"]


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("what", RUNS)
def test_forward_and_backward_are_those_of_llvm(what: str, name: str) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("what", RUNS, ids=[f"{what}-opencl" for what in RUNS])
def test_a_device_with_memory_of_its_own_gets_copies(what: str, monkeypatch) -> None:
    """PoCL works on the host's memory; here it is treated as a GPU that does not, whose new memory
    holds junk."""
    caps = find_backend("opencl").find()
    if isinstance(caps, Missing):
        pytest.skip(f"opencl: {caps.reason}")
    driver = require_driver()
    apart = replace(driver, shared=False, cl=WithJunk(driver))
    monkeypatch.setattr(session_impl, "require_driver", lambda: apart)
    with config.override(backend="llvm"):
        wanted = RUNS[what]()
    with config.override(backend="opencl"):
        found = RUNS[what]()
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


class WithJunk:
    """pyopencl, but for new buffers that get no copy: they are filled."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver.cl, name)

    def Buffer(self, context: Any, flags: int, size: int = 0, hostbuf: Any = None) -> Any:  # noqa: N802
        made = self.driver.cl.Buffer(context, flags, size, hostbuf=hostbuf)
        if hostbuf is None:
            self.driver.cl.enqueue_fill_buffer(self.driver.queue, made, JUNK, 0, size)
        return made
