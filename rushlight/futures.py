"""torch.futures: a value that another thread gives later.

>>> from rushlight.futures import Future
>>> future = Future()
>>> doubled = future.then(lambda done: done.value() * 2)
>>> future.set_result(21)
>>> doubled.wait()
42
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = ["Future", "collect_all", "wait_all"]
T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A result that is set once, by any thread."""

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: concurrent.futures.Future[T] = concurrent.futures.Future()

    def done(self) -> bool:
        """Has it a result, or an error?"""
        return self._inner.done()

    def wait(self) -> T:
        """The result, when it is there; raises the error if one was set."""
        return self._inner.result()

    def value(self) -> T:
        """The result, which must be there already."""
        if not self.done():
            raise RuntimeError("value() called on a Future that is not completed yet; use wait()")
        return self._inner.result()

    def set_result(self, result: T) -> None:
        """Complete it. A second time is an error."""
        if self.done():
            raise RuntimeError("Future can only be marked completed once")
        self._inner.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Complete it with an error, which `wait` raises."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._inner.set_exception(result)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call `callback(self)` when it is complete; at once if it is."""
        self._inner.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what `callback(self)` gives."""
        after: Future[S] = Future()

        def run(_: Any) -> None:
            try:
                after.set_result(callback(self))
            except BaseException as error:
                after.set_exception(error)

        self._inner.add_done_callback(run)
        return after


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future that is complete when all of these are; its result is their list."""
    everything: Future[list[Future[Any]]] = Future()
    left = [len(futures)]

    def one_done(_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            everything.set_result(futures)

    if not futures:
        everything.set_result(futures)
    for future in futures:
        future.add_done_callback(one_done)
    return everything


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """All results, in order."""
    return [future.wait() for future in collect_all(futures).wait()]
