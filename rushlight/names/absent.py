"""Modules of devices that are not there (torch.cuda, torch.xpu, torch.mps), as PyTorch has them in
a build without the device.

Questions are answered (no, none, 0), what only asks for order or seeds does nothing, and what needs
the device raises the error that PyTorch raises. The lists are data: `Absent` makes one function of
each name, when it is first asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from rushlight.names.lookup import getattr_of


def absent_class(name: str, module: str, error: Exception) -> type:
    """A class that can be named and asked about, but not made: there is no such device."""

    def refuse(cls: type, *_: Any, **__: Any) -> NoReturn:
        raise type(error)(*error.args)

    return type(name, (), {"__new__": refuse, "__module__": module})


class Absent:
    """The functions and classes of one absent device.

    zero, nothing, no, empty, need, classes: words, the names that answer 0, None, False, [], with
    the error, and the names that are classes.
    """

    def __init__(
        self, module: str, error: Exception, *, zero: str = "", nothing: str = "", no: str = "",
        empty: str = "", need: str = "", classes: str = "",
    ) -> None:  # fmt: skip
        self.module, self.error = module, error
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
        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise type(self.error)(*self.error.args)

        return self._named(name, refuse)

    def _class(self, name: str) -> type:
        return absent_class(name, self.module, self.error)

    def _named(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
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
