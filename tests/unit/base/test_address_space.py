"""A limit of the address space ends in an error, not in the end of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.base import address_space
from rushlight.base.errors import OutOfMemoryError

resource = pytest.importorskip("resource")

PROGRAM = """
import resource, sys
import numpy
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (int(sys.argv[1]) << 20), resource.RLIM_INFINITY))
try:
    import rushlight as torch
    w = torch.ones(300, 300, requires_grad=True)
    (w @ w).square().mean().backward()
    print("ran", round(w.grad.sum().item()))
except (MemoryError, RuntimeError) as error:
    print("error", type(error).__name__)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("room_mb", [120, 185, 200, 215, 230, 2000])
def test_a_process_with_little_room_runs_or_says_why_not(room_mb, tmp_path):
    environment = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", PROGRAM, str(room_mb)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ran 360000" if room_mb == 2000 else ("ran 360000", "error"))


def test_the_error_says_what_is_missing(monkeypatch):
    address_space.require_room(1 << 10, "a test")
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1 << 20, 1 << 20))
    with pytest.raises(OutOfMemoryError, match="a test may need so much, and of 1048576 bytes"):
        address_space.require_room(1 << 10, "a test")
