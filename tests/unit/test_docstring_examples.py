"""The examples in the docstrings of these packages run and are true."""

import doctest
import importlib
import pkgutil

import pytest

import rushlight as torch

PACKAGES = (
    "rushlight.nn", "rushlight.optim", "rushlight.utils", "rushlight.serialization",
    "rushlight.distributed", "rushlight.export", "rushlight.jit",
)  # fmt: skip


def module_names():
    for package_name in PACKAGES:
        package = importlib.import_module(package_name)
        yield package_name
        for found in pkgutil.walk_packages(package.__path__, package_name + "."):
            yield found.name


@pytest.mark.parametrize("name", list(module_names()))
def test_examples_are_true(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"torch": torch})
    assert result.failed == 0
