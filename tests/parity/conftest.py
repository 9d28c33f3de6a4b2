"""Every test of this folder compares with PyTorch, of exactly the release of the extra `parity`."""

import importlib
from pathlib import Path

import pytest

ORACLE_VERSION = "2.13.0"
HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in Path(item.fspath).parents:
            item.add_marker(pytest.mark.parity)


@pytest.fixture(scope="session")
def oracle():
    """PyTorch itself."""
    try:
        module = importlib.import_module("torch")
    except ImportError:
        pytest.skip("PyTorch is not installed: make parity")
    version = module.__version__.partition("+")[0]
    assert version == ORACLE_VERSION, f"the oracle is PyTorch {ORACLE_VERSION}, not {version}"
    return module


@pytest.fixture(scope="session")
def rushlight():
    """Rushlight."""
    return importlib.import_module("rushlight")
