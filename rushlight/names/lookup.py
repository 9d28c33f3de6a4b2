"""`getattr_of`: the `__getattr__` of public modules."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

_DUNDERS = ("__config__",)  # modules of PyTorch with such names


def getattr_of(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of our public module `module`: modules below it, stand-ins, or a useful
    error."""

    def find(name: str) -> Any:
        if name.startswith("__") and name not in _DUNDERS:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        full = f"{module}.{name}"
        if _is_module(full):
            return importlib.import_module(full)
        stand_in = importlib.import_module("rushlight.names.stand_in").find_stand_in(module, name)
        if stand_in is not None:
            return vars(sys.modules[module]).setdefault(name, stand_in)
        raise importlib.import_module("rushlight.names.missing").missing_name(module, name)

    return find


def _is_module(full: str) -> bool:
    """Can `full` be imported? Its parent is imported already."""
    parent = sys.modules[full.rpartition(".")[0]]
    if not hasattr(parent, "__path__"):
        return False
    return importlib.util.find_spec(full) is not None


def lend(package: str, *lenders: str) -> None:
    """Let the modules below `package` that are loaded find names in other modules too.

    A module of PyTorch also has what it imports: `torch.nn.modules.rnn.LSTMCell`, which here is in
    another file, or `torch.nn.modules.dropout.Module`.
    """

    def lent_to(borrower: str) -> Callable[[str], Any]:
        def find(name: str) -> Any:
            for lender in () if name.startswith("__") else lenders:
                module = importlib.import_module(lender)
                if hasattr(module, name):
                    return getattr(module, name)
            raise AttributeError(f"module '{borrower}' has no attribute '{name}'")

        return find

    for name, module in list(sys.modules.items()):
        if name.startswith(f"{package}.") and "__getattr__" not in vars(module):
            vars(module)["__getattr__"] = lent_to(name)
