"""torch.utils._contextlib: contexts that are decorators too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["context_decorator", "_NoParamDecoratorContextManager"]


def _wrap_generator(ctx_factory: Callable[[], Any], func: Callable[..., Any]) -> Any:
    """A generator whose steps run inside of the context, and the caller's between them do not."""

    @functools.wraps(func)
    def stepped(*args: Any, **kwargs: Any) -> Any:
        generator = func(*args, **kwargs)
        step, given = generator.send, None
        while True:
            try:
                with ctx_factory():
                    response = step(given)
            except StopIteration as end:
                return end.value
            try:
                step, given = generator.send, (yield response)
            except GeneratorExit:
                with ctx_factory():
                    generator.close()
                raise
            except BaseException as error:
                step, given = generator.throw, error

    return stepped


def context_decorator(ctx: Any, func: Any) -> Any:
    """`func` inside of a context; a callable `ctx` makes a new one for each call."""
    factory = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx
    if inspect.isclass(func):
        raise RuntimeError(
            f"Cannot decorate classes; it is ambiguous whether or not only the constructor or all "
            f"methods should have the context manager applied: {func}"
        )
    if inspect.isgeneratorfunction(func):
        return _wrap_generator(factory, func)

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with factory():
            return func(*args, **kwargs)

    return inside


class _DecoratorContextManager:
    """A context that can stand above a function: each call is inside of a `clone()` of it."""

    def __call__(self, orig_func: Any) -> Any:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *_: Any) -> Any:
        raise NotImplementedError

    def clone(self) -> Any:
        """Another one like this; to be redefined where `__init__` has parameters."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same without parameters: it may be written above a function without `()`."""

    def __new__(cls, orig_func: Any = None) -> Any:
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
