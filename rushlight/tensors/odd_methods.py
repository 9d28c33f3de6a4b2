"""Methods of Tensor that ask about devices, layouts and numbers of another kind, and `Tensor.new`.

There is one device, one layout and no quantized number, so most answers are plain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from rushlight.tensors.creation import empty
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.size import Size
from rushlight.tensors.tensor import Tensor


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """A tensor of the same dtype: `new()`, `new(2, 3)`, `new([1, 2])`, `new(size)`."""
    if not args:
        return empty(0, dtype=self._dtype, device=device)
    if all(isinstance(arg, int | np.integer) for arg in args):
        return empty(*args, dtype=self._dtype, device=device)
    if len(args) == 1 and isinstance(args[0], Size):
        return empty(args[0], dtype=self._dtype, device=device)
    return tensor_of(args[0], self._dtype)


def record_stream(self: Tensor, s: Any) -> None:
    """Accepted: memory is given back when nobody holds the tensor, there are no streams."""


def dequantize(self: Tensor) -> Tensor:
    """The tensor itself in float32: no tensor is quantized."""
    return self.float()


def _not_quantized(self: Tensor, *_: Any) -> NoReturn:
    raise RuntimeError(
        f"Could not run this on a tensor of {self._dtype}: it is not quantized, and quantized "
        "dtypes are not supported"
    )


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself: it is dense."""
    return self if dtype is None else self.to(dtype)


def to_device(name: str) -> Callable[..., Tensor]:
    def method(self: Tensor, *_: Any, **__: Any) -> Tensor:
        return self.to(name)

    method.__name__ = method.__qualname__ = name
    return method


FUNCTIONS: dict[str, Callable[..., Any]] = {}
METHODS: dict[str, Any] = {
    "new": new, "record_stream": record_stream,
    "dequantize": dequantize, "to_dense": to_dense,
    **{name: to_device(name) for name in ("xpu", "hpu", "mtia")},
    **{name: _not_quantized for name in ("q_scale", "q_zero_point", "int_repr", "qscheme")},
    "is_cpu": property(lambda self: self.device.type == "cpu"),
    "is_hpu": property(lambda self: False), "is_mtia": property(lambda self: False),
    "is_vulkan": property(lambda self: False), "is_ipu": property(lambda self: False),
    "is_xla": property(lambda self: False), "is_maia": property(lambda self: False),
    "_cdata": property(id), "_backward_hooks": property(lambda self: None),
    "name": property(lambda self: None),
}  # fmt: skip
