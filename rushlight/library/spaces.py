"""`torch.ops`: operators by namespace. `torch.ops.aten` stands for PyTorch's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import rushlight as torch
from rushlight.library.operator import Operator
from rushlight.library.schema import Schema


class OpNamespace:
    """The operators of one namespace, as attributes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.operators: dict[str, Operator] = {}

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("operators", {}).get(name)
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        return found

    def __dir__(self) -> list[str]:
        return sorted(self.operators)


# Names of PyTorch's inner functions, by what they are called in public.
ATEN = {
    "_softmax": "softmax", "_log_softmax": "log_softmax", "native_dropout": "dropout",
    "_unsafe_view": "reshape", "_reshape_alias": "reshape", "alias": "view_as",
    "convolution": "conv2d", "copy_": "copy_", "lift_fresh_copy": "clone",
}  # fmt: skip


class Aten(Operator):
    """A function of PyTorch's as `torch.ops.aten.X`; all its overloads are the same function."""

    def __init__(self, name: str, function: Callable[..., Any], overload: str = "") -> None:
        super().__init__(Schema(f"aten::{name}", (), ("...",), overload))
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Aten:
        if name.startswith("_"):
            raise AttributeError(f"'{self.name()}' has no attribute '{name}'")
        return Aten(self._opname, self._function, "" if name == "default" else name)


class AtenNamespace(OpNamespace):
    """PyTorch's own functions; the first of these that has the name: torch, nn.functional, linalg,
    special, Tensor."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        public = ATEN.get(name, name)
        for space in (torch, torch.nn.functional, torch.Tensor):
            function = getattr(space, public, None)
            if callable(function):
                return self.operators.setdefault(name, Aten(name, function))
        for prefix, space in (("linalg_", torch.linalg), ("special_", torch.special)):
            function = getattr(space, public.removeprefix(prefix), None)
            if public.startswith(prefix) and callable(function):
                return self.operators.setdefault(name, Aten(name, function))
        return super().__getattr__(name)


def _load_library(path: Any) -> NoReturn:
    raise OSError(
        f"Could not load this library: {path}: libraries of compiled operators are made for "
        "PyTorch's C++ classes, which are not here."
    )


_SPACES: dict[str, OpNamespace] = {"aten": AtenNamespace("aten"), "prims": AtenNamespace("prims")}
_FUNCTIONS = {
    "load_library": _load_library, "import_module": __import__, "loaded_libraries": set(),
}  # fmt: skip


def find_space(name: str) -> Any:
    """`torch.ops.NAME`: a namespace, made when first asked for."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name.startswith("__"):
        raise AttributeError(f"'_Ops' object has no attribute '{name}'")
    return _SPACES.setdefault(name, OpNamespace(name))


_KEPT: dict[str, dict[str, Callable[..., Any]]] = {}


def keep_kernel(qualname: str, key: str, function: Callable[..., Any]) -> None:
    """A kernel of an operator that is not declared yet: it gets it then."""
    _KEPT.setdefault(qualname, {})[key] = function


def add_operator(operator: Operator) -> None:
    """Make it `torch.ops.space.name`; a second overload joins the first operator."""
    operator.kernels.update(_KEPT.pop(operator._qualname, {}))
    space = find_space(operator.namespace)
    first = space.operators.setdefault(operator._opname, operator)
    if first is not operator:
        setattr(first, operator._overloadname, operator)


def remove_space_operator(operator: Operator) -> None:
    """Take it away again."""
    find_space(operator.namespace).operators.pop(operator._opname, None)
