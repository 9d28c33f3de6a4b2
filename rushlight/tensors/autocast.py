"""Autocast: operands cast as each op is recorded, by PyTorch's lists for the CPU.

In: a record's name and its arguments, inside `torch.autocast("cpu")`. Out: the arguments, float32
ones cast to the low dtype for products and convolutions, low ones cast to float32 for losses. The
casts are recorded, so gradients of float32 parameters are float32.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rushlight.base.dtypes import DType, bfloat16, float16, float32, float64

LOWER = frozenset(
    """matmul linear dot conv conv1d conv2d conv3d conv_transpose conv_transpose1d conv_transpose2d
    conv_transpose3d addmm addbmm baddbmm bmm mm einsum bilinear
    scaled_dot_product_attention""".split()
)
FLOAT32 = frozenset(
    """cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy
    binary_cross_entropy_with_logits poisson_nll_loss cosine_embedding_loss hinge_embedding_loss
    margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss
    multilabel_margin_loss ctc_loss prod quantile nanquantile cdist trace cholesky inverse
    det""".split()
)


class _State(threading.local):
    dtype: DType | None = None  # the low dtype; None: off
    preferred: DType = bfloat16  # what a context without a dtype uses


STATE = _State()


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    return device_type == "cpu" and STATE.dtype is not None


def is_autocast_cpu_enabled() -> bool:
    return STATE.dtype is not None


def get_autocast_dtype(device_type: str) -> DType:
    return STATE.preferred if device_type == "cpu" else float16


def get_autocast_cpu_dtype() -> DType:
    return STATE.preferred


def get_autocast_gpu_dtype() -> DType:
    return float16


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    if device_type == "cpu":
        STATE.preferred = dtype


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    if device_type == "cpu":
        STATE.dtype = STATE.preferred if enabled else None


def clear_autocast_cache() -> None:
    """There is none: a cast that is recorded twice is one node."""


def is_autocast_cache_enabled() -> bool:
    return True


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Accepted: there is no cache to switch off."""


def _autocast_state() -> DType | None:
    return STATE.dtype


def _set_autocast_state(dtype: DType | None) -> None:
    STATE.dtype = dtype


def autocast_args(name: str, args: tuple, cast: Callable[[Any, DType], Any]) -> tuple:
    """The arguments of op `name` in the dtype that autocast wants. `cast(tensor, dtype)`."""
    low = STATE.dtype
    if name in LOWER:
        return tuple(
            _each(arg, lambda t: t if t._dtype is float64 else cast(t, low)) for arg in args
        )
    if name in FLOAT32 or name.startswith("linalg_"):
        return tuple(
            _each(arg, lambda t: cast(t, float32) if t._dtype.itemsize < 4 else t) for arg in args
        )
    return args


def _each(arg: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(arg, list | tuple):
        return type(arg)([_each(item, change) for item in arg])
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
