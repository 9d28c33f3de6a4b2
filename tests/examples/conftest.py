"""The example as a module, on a framework of the test's choice."""

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "gpt.py"


def load_example(framework) -> types.ModuleType:
    """The example with `framework` in the place of its import line."""
    text = EXAMPLE.read_text(encoding="utf-8")
    line = "import rushlight as torch"
    assert text.count(f"\n{line}") == 1
    code = compile(text.replace(f"\n{line}", "\n#"), str(EXAMPLE), "exec")
    module = types.ModuleType("gpt_example")
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
    rushlight = importlib.import_module("rushlight")
    if not hasattr(rushlight, "nn"):
        pytest.skip("this build of rushlight has no nn yet")
    return load_example(rushlight)
