"""Settings of all tests: a cache of their own, and the IR verified after every pass.

The variables are set before anything imports rushlight, and child processes inherit them.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
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


@pytest.fixture(autouse=True)
def devices_of_this_test_alone() -> Iterator[None]:
    """Once a device was used, a process looks where tensors are: the next test does not."""
    module = sys.modules.get("rushlight.base.devices")
    before = None if module is None else (module.DEVICES.used, dict(module._HERE))
    yield
    module = sys.modules.get("rushlight.base.devices")
    if module is None:
        return
    used, here = before or (False, {"cpu": module.CPU, "meta": module.META})
    module.DEVICES.used = used
    module._HERE.clear()
    module._HERE.update(here)
