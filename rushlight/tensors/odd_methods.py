"""Methods of Tensor that ask about devices, layouts and numbers of another kind, and `Tensor.new`.

There is one device, one layout and no quantized number, so most answers are plain.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from rushlight.tensors.creation import empty
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.size import Size
from rushlight.tensors.tensor import LEGACY, Tensor


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """A tensor of the same dtype: `new()`, `new(2, 3)`, `new([1, 2])`, `new(size)`."""
    if not args:
        return empty(0, dtype=self._dtype, device=device)
    if all(isinstance(arg, int | np.integer) for arg in args):
        return empty(*args, dtype=self._dtype, device=device)
    if len(args) == 1 and isinstance(args[0], Size):
        return empty(args[0], dtype=self._dtype, device=device)
    return tensor_of(args[0], self._dtype)


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """`x.resize(2, 3)`: deprecated by PyTorch for `reshape`, which it is."""
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    return self.contiguous().view(*sizes)  # type: ignore[attr-defined]


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


def to_layout(name: str) -> Callable[..., Tensor]:
    """A method that makes a sparse tensor; sparse/convert.py has it."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return LEGACY.sparse(name)(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


def not_sparse(name: str, layout: str) -> Callable[..., NoReturn]:
    """A method of sparse tensors, on one that is not."""

    def method(self: Tensor) -> NoReturn:
        raise RuntimeError(f"{name} expected {layout} tensor layout but got Strided")

    method.__name__ = method.__qualname__ = name
    return method


OF_LAYOUTS = {
    "sparse coordinate": ("coalesce", "is_coalesced", "indices", "_indices", "_values", "_nnz"),
    "sparse row compressed": ("crow_indices", "col_indices"),
    "sparse column compressed": ("ccol_indices", "row_indices"),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {}
METHODS: dict[str, Any] = {
    "new": new, "resize": resize, "record_stream": record_stream,
    "dequantize": dequantize, "to_dense": to_dense,
    **{name: to_device(name) for name in ("xpu", "hpu", "mtia")},
    **{name: _not_quantized for name in ("q_scale", "q_zero_point", "int_repr", "qscheme")},
    **{name: to_layout(name) for name in ("to_sparse", "to_sparse_csr", "to_sparse_csc",
                                          "to_sparse_bsr", "to_sparse_bsc", "sparse_mask")},
    "to_sparse_coo": to_layout("to_sparse"),
    **{name: not_sparse(name, layout) for layout, names in OF_LAYOUTS.items() for name in names},
    "values": not_sparse("values", "sparse coordinate or compressed"),
    "sparse_dim": lambda self: 0, "dense_dim": lambda self: len(self._shape),
    "is_sparse_csr": property(lambda self: False),
    "is_cpu": property(lambda self: self.device.type == "cpu"),
    "is_hpu": property(lambda self: False), "is_mtia": property(lambda self: False),
    "is_vulkan": property(lambda self: False), "is_ipu": property(lambda self: False),
    "is_xla": property(lambda self: False), "is_maia": property(lambda self: False),
    "_cdata": property(id), "_backward_hooks": property(lambda self: None),
    "name": property(lambda self: None),
}  # fmt: skip
