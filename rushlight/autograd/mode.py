"""Grad modes: is autograd recording? Thread-local, as context managers and decorators.

`STATE` is read on every op, so it is one thread-local object with plain attributes.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any


class _State(threading.local):
    grad = True  # record history
    inference = False  # new tensors are inference tensors
    pack_hooks: tuple = ()  # stack of (pack, unpack) pairs of saved_tensors_hooks
    no_pack_hooks: str | None = None  # the text of the error that such a pair raises now
    anomaly = False
    check_nan = True
    create_graph = False  # the backward that is running records history itself


STATE = _State()


def is_grad_enabled() -> bool:
    return STATE.grad


def is_inference_mode_enabled() -> bool:
    return STATE.inference


class _Mode:
    """A context manager that is also a decorator (a new instance per call, so it nests)."""

    _before: tuple[bool, bool]

    def __call__(self, function: Callable) -> Callable:
        if inspect.isclass(function):
            return function
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def _wrap_generator(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            sent: Any = None
            while True:  # the mode holds inside the generator, not in its consumer
                try:
                    with self.clone():
                        value = generator.send(sent)
                except StopIteration as stop:
                    return stop.value
                sent = yield value

        return wrapped

    def clone(self) -> _Mode:
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *error: object) -> None:
        STATE.grad, STATE.inference = self._before


class no_grad(_Mode):
    """Ops inside record no history.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def __new__(cls, function: Callable | None = None) -> Any:
        self = super().__new__(cls)
        return self if function is None else self(function)

    def __enter__(self) -> None:
        self._before = STATE.grad, STATE.inference
        STATE.grad = False


class enable_grad(no_grad):
    """Ops inside record history, also under `no_grad`."""

    def __enter__(self) -> None:
        self._before = STATE.grad, STATE.inference
        STATE.grad = True


class set_grad_enabled(_Mode):
    """Switch recording on or off: at once when called, back at the end of a `with`."""

    def __init__(self, mode: bool) -> None:
        self._before = STATE.grad, STATE.inference
        self.mode = STATE.grad = bool(mode)

    def __call__(self, function: Callable) -> Callable:
        STATE.grad = self._before[0]
        return super().__call__(function)

    def __enter__(self) -> None:
        STATE.grad = self.mode

    def clone(self) -> _Mode:
        return set_grad_enabled(self.mode)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(_Mode):
    """Like `no_grad`, and the new tensors can never be part of a recorded graph."""

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        return self

    def __init__(self, mode: bool = True) -> None:
        self.mode = bool(mode)

    def clone(self) -> _Mode:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self._before = STATE.grad, STATE.inference
        STATE.inference = self.mode
        STATE.grad = STATE.grad and not self.mode if self.mode else True


SLOW = (
    "Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
    "enabled for debugging."
)


class set_detect_anomaly(_Mode):
    """Functions remember the user's line that recorded them; an error in backward, and (check_nan)
    the first gradient with a NaN, says that line."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.mode, self.check_nan = mode, check_nan
        self._before_anomaly = STATE.anomaly, STATE.check_nan
        STATE.anomaly, STATE.check_nan = mode, check_nan

    def clone(self) -> _Mode:
        return type(self)(self.mode, self.check_nan)

    def __enter__(self) -> None:
        STATE.anomaly, STATE.check_nan = self.mode, self.check_nan

    def __exit__(self, *error: object) -> None:
        STATE.anomaly, STATE.check_nan = self._before_anomaly


class detect_anomaly(set_detect_anomaly):
    """`set_detect_anomaly(True)` inside a block, with a warning that it costs time.

    >>> import rushlight as torch
    >>> x = torch.zeros(1, requires_grad=True)
    >>> with torch.autograd.detect_anomaly(check_nan=False):
    ...     (x * 2).backward()
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)
        warnings.warn(SLOW, stacklevel=2)

    def clone(self) -> _Mode:
        return detect_anomaly(self.check_nan)


class saved_tensors_hooks:
    """Inside, every value saved for backward goes through `pack_hook`, and back at its use."""

    def __init__(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        self.pair = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        if STATE.no_pack_hooks is not None:
            raise RuntimeError(STATE.no_pack_hooks)
        STATE.pack_hooks = (*STATE.pack_hooks, self.pair)

    def __exit__(self, *error: object) -> None:
        STATE.pack_hooks = STATE.pack_hooks[:-1]
