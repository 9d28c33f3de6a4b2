"""Autocast: operands cast as each op is recorded, by PyTorch's lists for the CPU.

In: a record's name and its arguments, inside `torch.autocast("cpu")`. Out: the arguments, cast to
the low dtype for products and convolutions. The casts are recorded, so gradients of float32
parameters are float32. Functions that are cast as a whole are in `autocast_rules.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rushlight.base.dtypes import DType, bfloat16, float16, float64

LOWER = frozenset(
    """matmul linear dot conv conv1d conv2d conv3d conv_transpose conv_transpose1d conv_transpose2d
    conv_transpose3d addmm addbmm baddbmm bmm mm bilinear
    scaled_dot_product_attention""".split()
)


class _State(threading.local):
    dtype: DType | None = None  # the low dtype; None: off
    preferred: DType = bfloat16  # what a context without a dtype uses
    keeps_casts: bool = True  # only remembered
    kind: str = "cpu"  # the device that was named; tensors of all devices are cast


STATE = _State()


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Is autocast on for a device? As in PyTorch, without a name that of CUDA."""
    return device_type == STATE.kind and STATE.dtype is not None


def is_autocast_cpu_enabled() -> bool:
    return is_autocast_enabled("cpu")


def get_autocast_dtype(device_type: str) -> DType:
    if device_type == "cpu":
        return STATE.preferred
    return STATE.dtype or float16 if device_type == STATE.kind else float16


def get_autocast_cpu_dtype() -> DType:
    return STATE.preferred


def get_autocast_gpu_dtype() -> DType:
    return get_autocast_dtype("cuda")


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    if device_type == "cpu":
        STATE.preferred = dtype


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    if device_type == "cpu":
        STATE.dtype, STATE.kind = STATE.preferred if enabled else None, "cpu"


def clear_autocast_cache() -> None:
    """There is none: a cast that is recorded twice is one node."""


def is_autocast_cache_enabled() -> bool:
    return STATE.keeps_casts


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Remembered: there is no cache."""
    STATE.keeps_casts = bool(enabled)


def _autocast_state() -> tuple:
    return STATE.dtype, STATE.preferred, STATE.keeps_casts, STATE.kind


def _set_autocast_state(
    dtype: DType | None, preferred: DType, keeps_casts: bool, kind: str = "cpu"
) -> None:
    STATE.dtype, STATE.preferred, STATE.keeps_casts = dtype, preferred, keeps_casts
    STATE.kind = kind


def autocast_args(name: str, args: tuple, cast: Callable[[Any, DType], Any]) -> tuple:
    """The arguments of record `name` in the dtype that autocast wants. `cast(tensor, dtype)`."""
    low = STATE.dtype
    if name not in LOWER:
        return args
    return each_float(args, lambda t: t if t._dtype is float64 else cast(t, low))


def each_float(arg: Any, change: Callable[[Any], Any]) -> Any:
    """The argument with its floating point tensors changed; lists and tuples are looked into."""
    if isinstance(arg, list | tuple):
        found = [each_float(item, change) for item in arg]
        return type(arg)(found) if type(arg) in (list, tuple) else type(arg)(*found)
    dtype = getattr(arg, "_dtype", None)
    return change(arg) if dtype is not None and dtype.kind == "float" else arg


FUNCTIONS = {
    function.__name__: function
    for function in (
        is_autocast_enabled, is_autocast_cpu_enabled, get_autocast_dtype, get_autocast_cpu_dtype,
        get_autocast_gpu_dtype, set_autocast_dtype, set_autocast_enabled, clear_autocast_cache,
        is_autocast_cache_enabled, set_autocast_cache_enabled, _autocast_state, _set_autocast_state,
    )
}  # fmt: skip
