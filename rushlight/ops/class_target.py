"""What a target of classes must be like: the checks of cross_entropy and nll_loss.

In: the input's shape [N, C], [C] or [N, C, d1, ...] and dtype, the target's, a weight's. Out:
nothing, or PyTorch's error. Sizes that are not known yet pass.
"""

from __future__ import annotations

from typing import Any

from rushlight.base.dtypes import int64, uint8
from rushlight.ir.complex_operands import refusal
from rushlight.ops.rules import Shape, is_static

INDEX_DTYPES = (int64, uint8)
MULTI_TARGET = "0D or 1D target tensor expected, multi-target not supported"


def class_dim(ndim: int) -> int:
    return 0 if ndim == 1 else 1


def row_shape(shape: Shape) -> Shape:
    """The shape without its dimension of classes."""
    return tuple(s for d, s in enumerate(shape) if d != class_dim(len(shape)))


def differ(a: Shape, b: Shape) -> bool:
    """Whether two shapes are known to differ."""
    return a != b and all(map(is_static, a + b))


def check_batch(shape: Shape, target: Shape) -> None:
    """Raise unless an input that has a batch has the target's."""
    if len(shape) == 1 or (target and not differ(shape[:1], target[:1])):
        return
    raise ValueError(
        f"Expected input batch_size ({shape[0]}) to match target batch_size "
        f"({target[0] if target else 0})."
    )


def check_index_dtype(target: Any) -> None:
    if target.dtype not in INDEX_DTYPES:
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_name}"
        )


def check_logits(dtype: Any) -> None:
    """Raise unless a softmax of logits of this dtype exists."""
    if not dtype.is_floating_point:
        text = '"log_softmax_lastdim_kernel_impl"'
        raise NotImplementedError(refusal("log_softmax", dtype, text))


def check_probabilities(x: Any, target: Any, weight: Any) -> None:
    """Raise unless the target, of the input's shape, can hold probabilities."""
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{target.dtype.scalar_name}"
        )
    if x.ndim == 0:
        raise IndexError("Dimension specified as 1 but tensor has no dimensions")
    _check_weight_size("cross_entropy: weight", x, weight)


def check_classes(x: Any, target: Any, weight: Any) -> None:
    """Raise unless the target holds an index for each of the input's rows."""
    if x.ndim == 0:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    check_batch(x.shape, target.shape)
    if x.ndim <= 2:
        check_row_target(x.shape, target)
    elif x.ndim == 4:
        _check_image_target(x.shape, target.shape)
    elif differ(row_shape(x.shape), target.shape):
        raise RuntimeError(
            f"Expected target size {list(row_shape(x.shape))}, got {list(target.shape)}"
        )
    check_index_dtype(target)
    _check_class_weight(x, weight)


def check_row_target(shape: Shape, target: Any) -> None:
    """Raise unless an input [N, C] or [C] can have this target of indices."""
    if target.ndim > 1:
        raise RuntimeError(MULTI_TARGET)
    check_index_dtype(target)
    if len(shape) == target.ndim == 1 and differ(target.shape, (1,)):
        raise ValueError(
            f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}"
        )


def _check_image_target(shape: Shape, target: Shape) -> None:
    if len(target) != 3:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) but got targets of "
            f"dimension: {len(target)}"
        )
    if differ(row_shape(shape), target):
        raise RuntimeError(f"size mismatch (got input: {list(shape)} , target: {list(target)}")


def _check_class_weight(x: Any, weight: Any) -> None:
    """Raise unless a weight, if there is one, has a number of the input's dtype for each class."""
    if weight is None:
        return
    _check_weight_size("weight", x, weight)
    if weight.dtype is not x.dtype:
        raise RuntimeError(
            f"expected scalar type {x.dtype.scalar_name} but found {weight.dtype.scalar_name}"
        )


def _check_weight_size(name: str, x: Any, weight: Any) -> None:
    classes = x.shape[class_dim(x.ndim)]
    if weight is None or not differ(weight.shape, (classes,)):
        return
    raise RuntimeError(
        f"{name} tensor should be defined either for all {classes} classes or no classes but "
        f"got weight tensor of shape: {list(weight.shape)}"
        if x.ndim <= 2
        else f"{name} tensor should be defined either for all or no classes"
    )
