"""Modes: objects that take over every call of a public function inside a `with`."""

from __future__ import annotations

from typing import Any

from rushlight.overrides.dispatch import turn_on
from rushlight.overrides.state import STATE, Setting


class TorchFunctionMode:
    """Inside `with Mode():`, calls of torch's functions and of tensors' methods come to its
    `__torch_function__(func, types, args, kwargs)`, in which the mode itself is off.

    >>> import rushlight as torch
    >>> class Log(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Log():
    ...     x = torch.ones(2).sum()
    ones
    sum
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        turn_on()
        STATE.modes = (*STATE.modes, self)
        return self

    def __exit__(self, *_: object) -> None:
        STATE.modes = STATE.modes[:-1]

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchFunctionMode:
        """A mode of this class."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class DisableTorchFunctionSubclass(Setting):
    """Inside, no class takes over a call; modes do."""

    def __init__(self) -> None:
        super().__init__(subclasses=False)


class DisableTorchFunction(Setting):
    """Inside, no class and no mode takes over a call."""

    def __init__(self) -> None:
        super().__init__(subclasses=False, modes=())
