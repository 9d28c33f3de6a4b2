"""The examples as modules, on a framework of the test's choice."""

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load_example(framework, name: str = "gpt") -> types.ModuleType:
    """An example with `framework` in the place of its import line."""
    path = EXAMPLES / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    line = "import rushlight as torch"
    assert text.count(f"\n{line}") == 1
    code = compile(text.replace(f"\n{line}", "\n#"), str(path), "exec")
    module = types.ModuleType(f"{name}_example")
    module.torch = framework
    sys.modules[module.__name__] = module
    exec(code, module.__dict__)
    return module


class NoFramework:
    """Stands for the framework where a test needs only the example's own numpy code."""

    class _Anything:
        Module = object
        functional = None

    nn = _Anything


@pytest.fixture(scope="session")
def plain_example():
    """The example's parts that need no framework: count models, curves, options."""
    return load_example(NoFramework)


@pytest.fixture(scope="session")
def example():
    """The example on Rushlight."""
    return load_example(importlib.import_module("rushlight"))


@pytest.fixture(scope="session")
def long_context():
    """The example with documents, on Rushlight."""
    return load_example(importlib.import_module("rushlight"), "long_context")
