"""`nn`, `optim` and `utils` run on PyTorch: they use nothing of Rushlight but its public names."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("part", ["nn", "optim", "utils"])
def test_unit_tests_pass_on_pytorch(oracle, root, part):
    command = [sys.executable, "-m", "pytest", "-p", "tests.on_torch", f"tests/unit/{part}", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
