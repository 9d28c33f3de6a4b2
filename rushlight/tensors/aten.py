"""What `torch.ops.aten` has besides the public functions: backward formulas and internal forms.

In: names of PyTorch's internals. Out: functions on tensors, composed of public ones.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import DType, float32, uint8
from rushlight.tensors import functional
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import empty
from rushlight.tensors.functional_resize import interpolate, resize_smoothly
from rushlight.tensors.functions_native import native_batch_norm
from rushlight.tensors.functions_reduce import log_softmax, softmax
from rushlight.tensors.functions_view import reshape
from rushlight.tensors.indexing import getitem
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor


def slice(  # noqa: A001  (PyTorch's name)
    self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """x[start:end:step] along dim, as a view."""
    lead = (builtins.slice(None),) * (dim % max(self.dim(), 1))
    return getitem(self, (*lead, builtins.slice(start, end, step)))


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The gradient of dropout: what was kept, scaled."""
    return grad_output * (mask.to(grad_output._dtype) * scale)


def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType
) -> Tensor:
    """The gradient of softmax, from its output."""
    g, y = (x.to(x._dtype.compute) for x in (grad_output, output))
    part = g * y
    return (part - y * part.sum(dim, keepdim=True)).to(input_dtype)


def _softmax(self: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    """softmax; `half_to_float` gives float32."""
    return softmax(self, dim, float32 if half_to_float else None)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    """log_softmax; `half_to_float` gives float32."""
    return log_softmax(self, dim, float32 if half_to_float else None)


def _safe_softmax(self: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """softmax, and 0 where all of a line is -inf."""
    lost = (self == float("-inf")).all(dim, keepdim=True)
    known = apply(ops.where, (lost, 0.0, self))  # softmax of -inf alone has a gradient of NaN
    return apply(ops.where, (lost, 0.0, softmax(known, dim, dtype)))


def max_pool2d_with_indices_backward(
    grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    """Each gradient goes to the place that its window's largest element came from."""
    lead, lines = self._shape[:-2], (*self._shape[:-2], -1)
    empty_space = (self * 0).reshape(*lead, self._shape[-2] * self._shape[-1])
    args = (empty_space, len(lead), reshape(indices, lines), reshape(grad_output, lines))
    return reshape(apply(ops.scatter_add, args), self._shape)


def _batch_norm_with_update(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor,
    running_var: Tensor, momentum: float, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """native_batch_norm in training, and an empty reserve."""
    found = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*found, empty(0, dtype=uint8))


def _product_added(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * self + alpha * mat1 @ mat2."""
    return self.addmm(mat1, mat2, beta=beta, alpha=alpha)


def _resized(mode: str) -> Callable[..., Tensor]:
    def function(
        self: Tensor, output_size: Sequence[int] | None, align_corners: bool,
        scales_h: float | None = None, scales_w: float | None = None, *, scale_factors: Any = None,
    ) -> Tensor:  # fmt: skip
        if output_size is None:
            return interpolate(self, None, scale_factors, mode, align_corners, antialias=True)
        return resize_smoothly(self, output_size, (scales_h, scales_w), mode, align_corners)

    return function


def alias(self: Tensor) -> Tensor:
    """A view of all of it."""
    return self.view(self._shape)


def index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """x[indices]; None takes all of a dimension."""
    return getitem(self, tuple(builtins.slice(None) if i is None else i for i in indices))


def _to_copy(
    self: Tensor, *, dtype: DType | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool | None = None, non_blocking: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A copy with another dtype, or on another device."""
    return self.to(device or self.device, dtype or self._dtype, copy=True)


def _local_scalar_dense(self: Tensor) -> Any:
    """The number in a tensor of one element."""
    return self.item()


def sym_size(self: Tensor, dim: int | None = None) -> Any:
    """The size of a dimension."""
    return self.size() if dim is None else self.size(dim)


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """See Tensor.pin_memory."""
    return self.pin_memory()


OWN: dict[str, Callable] = {
    **by_name(
        slice, native_dropout_backward, _softmax_backward_data, _softmax, _log_softmax,
        _safe_softmax,
        max_pool2d_with_indices_backward, _batch_norm_with_update, alias, index, _to_copy,
        _local_scalar_dense, sym_size, _pin_memory,
    ),
    "_unsafe_view": reshape,
    "_reshape_alias": reshape,
    "_sparse_addmm": _product_added,
    "_upsample_bilinear2d_aa": _resized("bilinear"),
    "_upsample_bicubic2d_aa": _resized("bicubic"),
}  # fmt: skip


def finder(public: Mapping[str, Any]) -> Callable[[str], Callable | None]:
    """Looks for an internal form, a public function or a method of a name."""

    def find(name: str) -> Callable | None:
        found = OWN.get(name) or public.get(name) or getattr(functional, name, None)
        return found or getattr(Tensor, name, None)

    return find
