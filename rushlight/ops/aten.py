"""`torch.ops.aten`: functions under the names and overloads that PyTorch's internals use.

    torch.ops.aten.add.Tensor(a, b)      torch.ops.aten.relu.default(x)

In: a name. Out: a callable whose attributes are its overloads; all of them are the one function of
that name, which tells its overloads apart by its arguments. The records of this package are what
those functions record; the front end, which has the functions, sets `find`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Overload:
    """aten.add.Tensor: the function itself."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self.__name__}')>"


class Packet(Overload):
    """aten.add: the function, with its overloads as attributes."""

    def __getattr__(self, name: str) -> Overload:
        if name.startswith("__"):
            raise AttributeError(name)
        found = Overload(f"{self.__name__}.{name}", self._function)
        setattr(self, name, found)  # programs keep overloads in tables
        return found

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


class Aten:
    """The namespace."""

    find: Callable[[str], Callable[..., Any] | None] = staticmethod(lambda name: None)

    def __getattr__(self, name: str) -> Packet:
        function = None if name.startswith("__") else Aten.find(name)
        if function is None:
            raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
        return vars(self).setdefault(name, Packet(name, function))


aten = Aten()
