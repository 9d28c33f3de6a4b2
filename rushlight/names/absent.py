"""Modules of devices (torch.cuda, torch.xpu, torch.mps), as PyTorch has them in a build without the
device: where it is there, what is known of it answers instead.

Without it questions are answered (no, none, 0), what only asks for order or seeds does nothing, and
what needs the device raises the error that PyTorch raises. The lists are data: `Absent` makes one
function of each name, when it is first asked for. Whether there is a device is asked at each call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.base.errors import NotSupportedError
from rushlight.names.lookup import getattr_of


@dataclass(frozen=True)
class Here:
    """What answers where the device is there: functions and classes by name."""

    is_here: Callable[[], bool]
    functions: Mapping[str, Callable[..., Any]]
    classes: Mapping[str, type] = field(default_factory=dict)


NOWHERE = Here(lambda: False, {})


def absent_class(name: str, module: str, error: Exception, here: Here = NOWHERE) -> type:
    """A class that can be named and asked about, but made only where there is such a device."""
    real = here.classes.get(name)

    def new(cls: type, *_: Any, **__: Any) -> Any:
        if not here.is_here():
            raise type(error)(*error.args)
        if real is None:
            raise not_supported(module, name)
        return object.__new__(cls)

    return type(name, () if real is None else (real,), {"__new__": new, "__module__": module})


def not_supported(module: str, name: str) -> Exception:
    return NotSupportedError(f"{module}.{name} is not supported, though there is such a device")


class Absent:
    """The functions and classes of one device's module.

    zero, nothing, no, empty, need, classes: words, the names that answer 0, None, False, [], with
    the error, and the names that are classes, where there is no device.
    """

    def __init__(
        self, module: str, error: Exception, *, zero: str = "", nothing: str = "", no: str = "",
        empty: str = "", need: str = "", classes: str = "", here: Here = NOWHERE,
    ) -> None:  # fmt: skip
        self.module, self.error, self.here = module, error, here
        self._makers: dict[str, Callable[[str], Any]] = {}
        for words, answer in ((zero, lambda: 0), (nothing, lambda: None), (no, lambda: False),
                              (empty, list)):  # fmt: skip
            self._makers.update({name: self._answering(answer) for name in words.split()})
        self._makers.update({name: self._refusing for name in need.split()})
        self._makers.update({name: self._class for name in classes.split()})

    @property
    def names(self) -> list[str]:
        return sorted(self._makers)

    def make(self, name: str) -> Any:
        """The function or class called `name`; KeyError if there is none."""
        return self._makers[name](name)

    def _answering(self, answer: Callable[[], Any]) -> Callable[[str], Any]:
        def make(name: str) -> Callable[..., Any]:
            return self._named(name, lambda *args, **kwargs: answer())

        return make

    def _refusing(self, name: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            if self.here.is_here():
                raise not_supported(self.module, name)
            raise type(self.error)(*self.error.args)

        return self._named(name, refuse)

    def _class(self, name: str) -> type:
        return absent_class(name, self.module, self.error, self.here)

    def _named(self, name: str, absent: Callable[..., Any]) -> Callable[..., Any]:
        here, own = self.here, self.here.functions.get(name, absent)

        def function(*args: Any, **kwargs: Any) -> Any:
            return (own if own is not absent and here.is_here() else absent)(*args, **kwargs)

        function.__name__ = function.__qualname__ = name
        function.__module__ = self.module
        return function

    def getattr_for(self) -> Callable[[str], Any]:
        """The module's `__getattr__`. What was made once stays in the module."""
        other = getattr_of(self.module)

        def find(name: str) -> Any:
            if name not in self._makers:
                return other(name)
            return vars(sys.modules[self.module]).setdefault(name, self.make(name))

        return find
