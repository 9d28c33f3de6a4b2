"""No two threads touch the same memory without a barrier between: Oclgrind watches the kernels."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("race_cases.py")
ROOT = SCRIPT.parents[3]
HERE = bool(shutil.which("oclgrind")) and importlib.util.find_spec("pyopencl") is not None
pytestmark = pytest.mark.skipif(not HERE, reason="apt-get install oclgrind, pip install pyopencl")

KINDS = [
    "softmax_rows", "softmax_columns", "sum_rows", "sum_long_columns", "sum_outer", "argmax",
    "dot", "dot_float64", "dot_int", "dot_epilogue", "scan", "scan_long", "sort", "gather",
    "scatter_rows", "scatter_elements", "movement", "attention", "attention_causal", "pairs",
    "low_precision",
]  # fmt: skip


def watched(*arguments: str) -> str:
    """What the simulator and the cases say."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RUSHLIGHT_CACHE": "0"}
    environment["RUSHLIGHT_OPENCL_OPTIONS"] = ""  # Oclgrind knows few options
    done = subprocess.run(
        ["oclgrind", "--data-races", sys.executable, str(SCRIPT), *arguments], env=environment,
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_kernels_have_no_race(name: str) -> None:
    said = watched(name)
    assert f"{name}: supported" in said and "data race" not in said, said[-2000:]


def test_a_missing_barrier_is_found() -> None:
    assert "data race" in watched("--no-barriers", "softmax_rows")
