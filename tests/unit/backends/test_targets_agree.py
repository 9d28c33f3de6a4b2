"""The same bits from AVX-512, AVX2 and SSE4.1 code and from the interpreter, end to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from llvm_targets import OVERRIDES

CASES = Path(__file__).with_name("agree_cases.py")
ROOT = CASES.parents[3]


def results(**settings: str) -> dict[str, str]:
    """case -> digest, from a process with these settings."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RUSHLIGHT_CACHE": "0", **settings}
    done = subprocess.run(
        [sys.executable, str(CASES)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def host() -> dict[str, str]:
    return results(RUSHLIGHT_BACKEND="llvm", RUSHLIGHT_CPU_FEATURES="")


@pytest.mark.parametrize("target", ["avx2", "generic"])
def test_narrow_vectors_give_the_same_bits(host: dict[str, str], target: str) -> None:
    assert len(host) > 40
    assert results(RUSHLIGHT_BACKEND="llvm", RUSHLIGHT_CPU_FEATURES=OVERRIDES[target]) == host


def test_the_interpreter_gives_the_same_bits(host: dict[str, str]) -> None:
    assert results(RUSHLIGHT_BACKEND="interp") == host
