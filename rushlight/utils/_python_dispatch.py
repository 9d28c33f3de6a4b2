"""torch.utils._python_dispatch: modes that see PyTorch's inner operators. There is no dispatcher
here; torch.overrides.TorchFunctionMode sees the public functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "_get_current_dispatch_mode", "_get_current_dispatch_mode_stack",
    "is_in_torch_dispatch_mode", "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type", "return_and_correct_aliasing", "TorchDispatchMode",
]  # fmt: skip


class TorchDispatchMode:
    """Can be subclassed and asked about, but not entered."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        raise NotImplementedError(
            "torch.utils._python_dispatch.TorchDispatchMode is not supported: there is no "
            "dispatcher; use torch.overrides.TorchFunctionMode"
        )

    def __exit__(self, *_: object) -> None:
        return None


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """False: no tensor wraps others."""
    return False


def is_traceable_wrapper_subclass_type(t: Any) -> bool:
    """False: no class of tensors wraps others."""
    return False


def _get_current_dispatch_mode() -> None:
    """None: no mode is on."""
    return None


def _get_current_dispatch_mode_stack() -> list[Any]:
    return []


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    return False


@contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Nothing to switch off."""
    yield []


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """The result: what is a view is one already."""
    return out
