"""`torch.onnx.symbolic_helper`: decorators of functions that only an exporter would call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "parse_args", "quantized_args",
]  # fmt: skip


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """A decorator that changes nothing."""
    return lambda function: function


quantized_args = parse_args
