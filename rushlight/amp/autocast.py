"""The autocast context and decorator."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import rushlight as torch

WITHOUT_MODULE = ("opencl", "vulkan")  # devices that have no module as torch.cuda is one
DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "xla", "ipu", "maia", "privateuseone")


def is_here(device_type: str) -> bool:
    """Is it the CPU, or a device that is there?"""
    if device_type in WITHOUT_MODULE:
        try:
            torch.empty(0, device=device_type)
        except RuntimeError:
            return False
        return True
    module = getattr(torch, device_type, None)
    return device_type == "cpu" or (module is not None and bool(module.is_available()))


def is_autocast_available(device_type: str) -> bool:
    """Does PyTorch know autocast for such a device, or is it one that is there?"""
    torch.device(device_type)
    return device_type in DEVICES or is_here(device_type)


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
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise TypeError(
                "set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not "
                f"{type(dtype).__name__}"
            )
        if device_type not in DEVICES and not is_here(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device, self._enabled = device_type, bool(enabled)
        if device_type != "cpu" and not (enabled and is_here(device_type)):
            if enabled:
                warnings.warn(
                    f"User provided device_type of '{device_type}', but {device_type.upper()} is "
                    "not available. Disabling",
                    stacklevel=2,
                )
            self._enabled = False
        self.fast_dtype = torch.get_autocast_dtype(device_type) if dtype is None else dtype
        if self._enabled and self.fast_dtype not in (torch.bfloat16, torch.float16):
            warnings.warn(
                f"In {device_type.upper()} autocast, but the target dtype is not supported. "
                f"Disabling autocast.\n{device_type.upper()} Autocast only supports dtype of "
                "torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            self._enabled = False
        self._cache_enabled = cache_enabled
        self._before: list[tuple] = []

    def __enter__(self) -> autocast:
        before = on, preferred, keeps, kind = torch._autocast_state()
        self._before.append(before)
        if self.device == "cpu":
            on, preferred = self.fast_dtype if self._enabled else None, self.fast_dtype
        elif self._enabled:
            on = self.fast_dtype
        # Off for another device: what is on stays on, if it is not for that one.
        elif kind == self.device:
            on = None
        if self._enabled or self.device == "cpu":
            kind = self.device
        keeps = keeps if self._cache_enabled is None else self._cache_enabled
        torch._set_autocast_state(on, preferred, keeps, kind)
        return self

    def __exit__(self, *_: object) -> None:
        torch._set_autocast_state(*self._before.pop())

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


def _is_cast(value: torch.Tensor, device_type: str) -> bool:
    fits = value.is_floating_point() and value.device.type == device_type
    return fits and value.dtype is not torch.float64


def _cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
    """The value with its tensors in this dtype, looked for in mappings and iterables too."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if _is_cast(value, device_type) else value
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {
            _cast(key, device_type, dtype): _cast(item, device_type, dtype)
            for key, item in value.items()
        }
    if isinstance(value, Iterable):
        items = map(lambda item: _cast(item, device_type, dtype), value)
        return type(value)(items) if isinstance(value, list | tuple) else items
    return value


def custom_fwd(
    fwd: Callable | None = None, *, device_type: str, cast_inputs: torch.dtype | None = None
) -> Callable:
    """For `forward` of an `autograd.Function` whose `backward` has `custom_bwd`.

    Inside autocast and with `cast_inputs`, float tensors (no float64) come in that dtype and
    autocast is off; else it stays as it is, and `custom_bwd` runs in the same mode.

    Example:
        >>> class Product(torch.autograd.Function):
        ...     @staticmethod
        ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x @ x
        >>> with torch.autocast("cpu", dtype=torch.bfloat16):
        ...     Product.apply(torch.ones(2, 2)).dtype
        torch.float32
    """
    _check_device_name(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        ctx, is_on = args[0], torch.is_autocast_enabled(device_type)
        ctx._dtype = torch.get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = cast_inputs is None and is_on
        if cast_inputs is None or not is_on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            found = [_cast(arg, device_type, cast_inputs) for arg in args]
            return fwd(*found, **_cast(kwargs, device_type, cast_inputs))

    return wrapped


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """For `backward` of an `autograd.Function`: autocast is as it was in the forward."""
    _check_device_name(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(*args, **kwargs)

    return wrapped


def _check_device_name(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
