"""The autocast context and decorator."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import rushlight as torch

DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "xla", "ipu")


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast(device_type)` changes anything here."""
    return device_type == "cpu"


class autocast:  # noqa: N801
    """Inside, products and convolutions run in a low dtype and losses in float32.

    Example:
        >>> with torch.autocast("cpu", dtype=torch.bfloat16):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in DEVICES:
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device, self._enabled = device_type, bool(enabled)
        if device_type != "cpu":
            if enabled:
                warnings.warn(
                    f"User provided device_type of '{device_type}', but {device_type.upper()} is "
                    "not available. Disabling",
                    stacklevel=2,
                )
            self._enabled = False
        self.fast_dtype = torch.get_autocast_dtype("cpu") if dtype is None else dtype
        if self._enabled and self.fast_dtype not in (torch.bfloat16, torch.float16):
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtype of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            self._enabled = False
        self._before: list[Any] = []

    def __enter__(self) -> autocast:
        # Of another device: the state of the CPU stays as it is.
        self._before.append(torch._autocast_state())
        if self.device == "cpu":
            torch._set_autocast_state(self.fast_dtype if self._enabled else None)
        return self

    def __exit__(self, *_: object) -> None:
        torch._set_autocast_state(self._before.pop())

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


def custom_fwd(
    fwd: Callable | None = None, *, device_type: str = "cpu", cast_inputs: Any = None
) -> Callable:
    """For `autograd.Function.forward`: run without autocast when `cast_inputs` is given."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def wrapped(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        if cast_inputs is None or not torch.is_autocast_enabled(device_type):
            return fwd(ctx, *args, **kwargs)
        args = tuple(
            a.to(cast_inputs) if isinstance(a, torch.Tensor) and a.is_floating_point() else a
            for a in args
        )
        with autocast(device_type, enabled=False):
            return fwd(ctx, *args, **kwargs)

    return wrapped


def custom_bwd(bwd: Callable | None = None, *, device_type: str = "cpu") -> Callable:
    """For `autograd.Function.backward`; it runs in the mode of its caller."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd
