"""Settings of all tests: a cache of their own, and the IR verified after every pass.

The variables are set before anything imports rushlight, and child processes inherit them.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

_cache_dir = tempfile.mkdtemp(prefix="rushlight-test-cache-")
os.environ["RUSHLIGHT_CACHE_DIR"] = _cache_dir
os.environ.setdefault("CHECK", "1")


def pytest_addoption(parser):
    parser.addoption("--backend", default="llvm", help="whose conformance is tested")


def pytest_unconfigure(config):
    shutil.rmtree(_cache_dir, ignore_errors=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT
