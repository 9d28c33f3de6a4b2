"""The examples in the docstrings of the package run and are true."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import rushlight as torch

ROOT = Path(torch.__file__).parent
EXAMPLE = re.compile(r"^\s*>>> (?!.*doctest: \+SKIP)", re.MULTILINE)


def module_names():
    """Modules with examples that run; not those that load optional packages."""
    for path in sorted(ROOT.rglob("*.py")):
        if EXAMPLE.search(path.read_text(encoding="utf-8")) and not path.stem.endswith("_impl"):
            parts = path.relative_to(ROOT.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def examples_of(name):
    module = importlib.import_module(name)
    if module is torch:  # a look at its names makes more of them
        return doctest.DocTestFinder(recurse=False).find(module)
    if name == "rushlight.tensors.tensor":  # the class says that it is of another module
        return doctest.DocTestFinder(recurse=False).find(torch.Tensor, module=False, globs={})
    return doctest.DocTestFinder().find(module)


@pytest.mark.parametrize("name", list(module_names()))
def test_examples_are_true(name):
    runner = doctest.DocTestRunner()
    for example in examples_of(name):
        example.globs["torch"] = torch
        runner.run(example)
    assert runner.tries and not runner.failures
