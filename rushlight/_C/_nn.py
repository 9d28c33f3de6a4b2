"""torch._C._nn: functions that PyTorch's modules call."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import names as _names

__all__ = ["_parse_to"]
F = torch.nn.functional
gelu, one_hot, pad = F.gelu, F.one_hot, F.pad
linear, scaled_dot_product_attention = F.linear, F.scaled_dot_product_attention
_missing = _names.getattr_of(__name__)


def __getattr__(name: str) -> Any:
    """Most of its functions are torch.nn.functional's."""
    return getattr(F, name) if hasattr(F, name) else _missing(name)


def _parse_to(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False,
    copy: bool = False, memory_format: Any = None,
) -> tuple[Any, Any, bool, Any]:  # fmt: skip
    """The arguments of `Module.to`: (device, dtype, non_blocking, memory_format)."""
    given = list(args)
    for value in args:
        if isinstance(value, torch.Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, torch.dtype):
            dtype = value
        elif isinstance(value, bool):
            non_blocking = value
        elif value is not None:
            device = value
    if given and device is None and dtype is None and given[0] is not None:
        raise TypeError(f"to() received an invalid combination of arguments - got {args}")
    return (None if device is None else torch.device(device)), dtype, non_blocking, memory_format
