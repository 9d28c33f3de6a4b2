"""What is said of a name that is not there, and the `__getattr__` of public modules.

A name that PyTorch has: MissingNameError, which is a NotImplementedError and an AttributeError, so
`hasattr` answers no. Any other name: AttributeError. Both name the nearest names that are there.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from rushlight.base.errors import MissingNameError
from rushlight.names.known import is_known
from rushlight.names.refused import REFUSED


def missing_name(module: str, name: str) -> AttributeError:
    """The error for `name`, asked of our module `module` ("rushlight.nn")."""
    theirs = "torch" + module.removeprefix("rushlight")
    reason = REFUSED.get(f"{theirs}.{name}") or REFUSED.get(theirs)
    if reason:
        return MissingNameError(f"{module}.{name} is not supported: {reason}")
    hint = _nearest(module, name)
    if is_known(theirs, name):
        return MissingNameError(f"{module}.{name} is not there yet{hint}")
    return AttributeError(f"module '{module}' has no attribute '{name}'{hint}")


def _nearest(module: str, name: str) -> str:
    there = [other for other in dir(sys.modules[module]) if not other.startswith("_")]
    close = difflib.get_close_matches(name, there, n=2, cutoff=0.75)
    return f"; the nearest name is {' or '.join(close)}" if close else ""


def getattr_of(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of our public module `module`: modules below it, or a useful error."""

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        full = f"{module}.{name}"
        if _is_module(full):
            return importlib.import_module(full)
        raise missing_name(module, name)

    return find


def _is_module(full: str) -> bool:
    """Can `full` be imported? Its parent is imported already."""
    parent = sys.modules[full.rpartition(".")[0]]
    if not hasattr(parent, "__path__"):
        return False
    return importlib.util.find_spec(full) is not None
