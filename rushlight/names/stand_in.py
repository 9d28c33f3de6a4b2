"""Stand-ins: names of parts that are not there, in modules that packages import early.

from torch.distributed.tensor import DTensor     # works
isinstance(weight, DTensor)                      # False
DTensor.from_local(weight)                       # raises, and says why
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from rushlight.base.errors import NotSupportedError
from rushlight.names.known import stand_in_names
from rushlight.names.refused import ANSWERS, DECORATORS, STAND_IN_NAMES, stand_in_reason


class StandIn(type):
    """The class of stand-ins."""

    _full: str
    _reason: str

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise NotSupportedError(f"{cls._full} is not supported: {cls._reason}")

    def __getattr__(cls, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(f"{cls._full} is not supported: {cls._reason}")
        return make_stand_in(f"{cls._full}.{name}", cls._reason)

    def __repr__(cls) -> str:
        if cls._full in STAND_IN_NAMES:  # programs take dtypes apart as text
            return cls._full
        return f"<stand-in of {cls._full}, which is not supported>"


def make_stand_in(full: str, reason: str) -> StandIn:
    """The stand-in of PyTorch's name `full`."""
    module, _, name = full.rpartition(".")
    return StandIn(name, (), {"_full": full, "_reason": reason, "__module__": module})


def find_stand_in(module: str, name: str) -> StandIn | None:
    """The stand-in of a single name that our module `module` does not have, or None."""
    theirs = "torch" + module.removeprefix("rushlight")
    reason = STAND_IN_NAMES.get(f"{theirs}.{name}")
    inner = stand_in_reason(theirs)
    if reason is None and inner and name in stand_in_names().get(theirs, ()):
        reason = inner
    return make_stand_in(f"{theirs}.{name}", reason) if reason else None


def _refusing(stand_in: StandIn, function: Callable[..., Any]) -> Callable[..., NoReturn]:
    """A function decorated by a part that is not there."""

    @functools.wraps(function)
    def refused(*_: Any, **__: Any) -> NoReturn:
        stand_in()

    return refused


class StandInModule(ModuleType):
    """A module of stand-ins; it has the names that PyTorch's module has."""

    def __init__(self, name: str) -> None:
        theirs = "torch" + name.removeprefix("rushlight")
        self._theirs, self._reason = theirs, stand_in_reason(theirs)
        super().__init__(name, f"{theirs} is not supported: {self._reason}")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and is_module(f"{self._theirs}.{name}"):
            return importlib.import_module(f"{self.__name__}.{name}")
        if name.startswith("__") or name not in stand_in_names().get(self._theirs, ()):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        made: Any = make_stand_in(f"{self._theirs}.{name}", self._reason)
        if name in ANSWERS:
            made = functools.partial(ANSWERS.get, name)
        elif name in DECORATORS:
            made = functools.partial(_refusing, made)
        setattr(self, name, made)
        return made

    def __dir__(self) -> list[str]:
        return sorted(stand_in_names().get(self._theirs, ()))


def is_module(theirs: str) -> bool:
    """Has PyTorch such a module, or modules below it?"""
    known = stand_in_names()
    return theirs in known or any(name.startswith(f"{theirs}.") for name in known)
