"""nn.functional: convolution, pooling, padding, unfold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight import ops
from rushlight.ops.conv_sliding import TAPS, slides
from rushlight.tensors.apply import apply, product_operands
from rushlight.tensors.autocast import STATE as AUTOCAST
from rushlight.tensors.autocast_rules import follow_all, in_float32
from rushlight.tensors.functional_pad import pad
from rushlight.tensors.functions_shape import pixel_shuffle
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_view import reshape, unsqueeze
from rushlight.tensors.out import write_out
from rushlight.tensors.tensor import Tensor
from rushlight.tensors.type_names import cpp_name


def per_dim(value: Any, count: int) -> tuple[int, ...]:
    """One int for all dims, or one per dim."""
    if isinstance(value, int):
        return (value,) * count
    values = tuple(int(v) for v in value)
    return values * count if len(values) == 1 else values


def batched(input: Tensor, spatial: int, name: str) -> tuple[Tensor, bool]:
    if input.dim() == spatial + 1:
        return unsqueeze(input, 0), True
    if input.dim() != spatial + 2:
        raise RuntimeError(
            f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to {name}, but "
            f"got input of size: {list(input._shape)}"
        )
    return input, False


def unbatched(result: Tensor, single: bool) -> Tensor:
    return result.squeeze(0) if single else result


def _conv(spatial: int) -> Callable:
    name = f"conv{spatial}d"

    def function(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        batch, single = batched(input, spatial, name)
        stride, dilation = per_dim(stride, spatial), per_dim(dilation, spatial)
        _check_steps(stride, dilation, padding)
        batch, weight, bias = product_operands(batch, weight, bias)
        _check_conv(batch, weight, bias, groups)
        if isinstance(padding, str):
            batch, padding = _string_padding(batch, weight, padding, stride, dilation)
        settings = (stride, per_dim(padding, spatial), dilation, groups)
        width = batch._shape[-1] + 2 * settings[1][-1] - (TAPS - 1)
        sliding = slides(batch._dtype, width, weight._shape, *settings)
        args = (batch, weight, bias, *settings, sliding)
        result = apply(getattr(ops, name), args, label="ConvolutionBackward0")
        return unbatched(result, single)

    function.__name__ = name
    return function


def _check_steps(stride: tuple, dilation: tuple, padding: Any) -> None:
    if any(d <= 0 for d in dilation):
        raise RuntimeError("dilation should be greater than zero")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if not isinstance(padding, str) and any(p < 0 for p in per_dim(padding, len(stride))):
        raise RuntimeError("negative padding is not supported")


def _check_conv(input: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> None:
    if weight.dim() != input.dim():
        raise RuntimeError(
            f"Expected {weight.dim()}-dimensional input for {weight.dim()}-dimensional weight "
            f"{list(weight._shape)}, but got {input.dim()}-dimensional input of size "
            f"{list(input._shape)} instead"
        )
    if bias is not None and bias._dtype is not input._dtype:
        raise RuntimeError(
            f"Input type ({cpp_name(input._dtype)}) and bias type ({cpp_name(bias._dtype)}) "
            "should be the same"
        )
    if input._dtype is not weight._dtype:
        raise RuntimeError(
            f"Input type ({cpp_name(input._dtype)}) and bias type "
            f"({cpp_name(weight._dtype)}) should be the same"
        )
    if input._shape[1] != weight._shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight._shape)}, expected "
            f"input{list(input._shape)} to have {weight._shape[1] * groups} channels, but got "
            f"{input._shape[1]} channels instead"
        )


def _string_padding(
    input: Tensor, weight: Tensor, padding: str, stride: tuple, dilation: tuple
) -> tuple[Tensor, tuple[int, ...]]:
    spatial = len(stride)
    if padding == "valid":
        return input, (0,) * spatial
    if padding != "same":
        raise ValueError(
            f"Invalid padding string '{padding}', should be one of {{'valid', 'same'}}"
        )
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, weight._shape[2:], strict=True)]
    if all(t % 2 == 0 for t in total):
        return input, tuple(t // 2 for t in total)
    amounts = [n for t in reversed(total) for n in (t // 2, t - t // 2)]
    return pad(input, amounts), (0,) * spatial


conv1d, conv2d, conv3d = (_conv(n) for n in (1, 2, 3))


def _conv_transpose(spatial: int) -> Callable:
    name = f"conv_transpose{spatial}d"

    def function(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        batch, single = batched(input, spatial, name)
        args = (
            batch, weight, bias, per_dim(stride, spatial), per_dim(padding, spatial),
            per_dim(output_padding, spatial), groups, per_dim(dilation, spatial),
        )  # fmt: skip
        result = apply(getattr(ops, name), args, label="ConvolutionBackward0")
        return unbatched(result, single)

    function.__name__ = name
    return function


conv_transpose1d, conv_transpose2d, conv_transpose3d = (_conv_transpose(n) for n in (1, 2, 3))


# Pooling -----------------------------------------------------------------------------------


def check_window(
    op: str, input: Tensor, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> None:
    """What every pooling asks of its window."""
    for name, values in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
        for value in values:
            if value <= 0:
                raise RuntimeError(f"{op}(): {name} must be greater than zero, but got {value}")
    for pad_, size, step in zip(padding, kernel, dilation, strict=True):
        if pad_ < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {pad_}")
        if pad_ > ((size - 1) * step + 1) // 2:
            raise RuntimeError(
                "pad should be at most half of effective kernel size, but got "
                f"pad={pad_}, kernel_size={size} and dilation={step}"
            )
    if not all(input._shape[1:]):
        raise RuntimeError(
            f"Expected input's non-batch dimensions to have positive length, but got input of "
            f"shape {list(input._shape)}"
        )


def _max_pool(spatial: int) -> Callable:
    name = f"max_pool{spatial}d"

    def function(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        if spatial == 3 and not return_indices and AUTOCAST.dtype is not None:
            input = in_float32(input)
        batch, single = batched(input, spatial, name)
        kernel = per_dim(kernel_size, spatial)
        step = kernel if stride is None or stride in ((), []) else per_dim(stride, spatial)
        args = (
            batch,
            kernel,
            step,
            per_dim(padding, spatial),
            per_dim(dilation, spatial),
            ceil_mode,
        )
        check_window(name, *args[:-1])
        label = f"MaxPool{spatial}DWithIndicesBackward0"
        result = unbatched(apply(getattr(ops, name), args, label=label), single)
        if not return_indices:
            return result
        return result, unbatched(apply(getattr(ops, f"{name}_index"), args), single)

    function.__name__ = name
    return function


max_pool1d, max_pool2d, max_pool3d = (_max_pool(n) for n in (1, 2, 3))


def _avg_pool(spatial: int) -> Callable:
    name = f"avg_pool{spatial}d"

    def function(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None,
        *, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        batch, single = batched(input, spatial, name)
        kernel = per_dim(kernel_size, spatial)
        step = kernel if stride is None or stride in ((), []) else per_dim(stride, spatial)
        edge = per_dim(padding, spatial)
        check_window(name, batch, kernel, step, edge, (1,) * spatial)
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        args = (batch, kernel, step, edge, ceil_mode, count_include_pad, divisor_override)
        result = unbatched(apply(getattr(ops, name), args), single)
        return result if out is None else write_out(out, result)

    function.__name__ = name
    return function


avg_pool1d, avg_pool2d, avg_pool3d = (_avg_pool(n) for n in (1, 2, 3))


def output_size_of(input: Tensor, size: Any, spatial: int) -> tuple[int, ...]:
    """The sizes that an adaptive pooling gives; None keeps the input's."""
    values = (size,) * spatial if size is None or isinstance(size, int) else tuple(size)
    if len(values) != spatial:
        raise RuntimeError(
            "'output_size' should contain one int" if spatial == 1 else
            f"output_size must be {spatial}, got {len(values)} elements"
        )  # fmt: skip
    if spatial > 1 and input.dim() <= spatial:
        raise ValueError(f"Input dimension should be at least {spatial + 1}, got {input.dim()}")
    sizes = tuple(
        h if v is None else int(v) for v, h in zip(values, input._shape[-spatial:], strict=True)
    )
    if any(size < 0 for size in sizes):
        raise RuntimeError(
            f"elements of output_size must be greater than or equal to 0, but received {sizes}"
        )
    return sizes


def _adaptive_avg(spatial: int) -> Callable:
    name = f"adaptive_avg_pool{spatial}d"

    def function(input: Tensor, output_size: Any) -> Tensor:
        size = output_size_of(input, output_size, spatial)
        batch, single = batched(input, spatial, name)
        return unbatched(apply(getattr(ops, name), (batch, size)), single)

    function.__name__ = name
    return function


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg, (1, 2, 3))


# Padding -----------------------------------------------------------------------------------


def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Windows of images as columns: (batch, channels * window, positions)."""
    batch, single = batched(input, 2, "unfold")
    kh, kw = per_dim(kernel_size, 2)
    (dh, dw), (ph, pw), (sh, sw) = per_dim(dilation, 2), per_dim(padding, 2), per_dim(stride, 2)
    padded = pad(batch, (pw, pw, ph, ph))
    wide = apply(ops.unfold, (apply(ops.unfold, (padded, 2, kh, sh, dh)), 3, kw, sw, dw))
    n, c, rows, columns = wide._shape[:4]
    result = reshape(wide.permute(0, 1, 4, 5, 2, 3), (n, c * kh * kw, rows * columns))
    return unbatched(result, single)


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Tensor:  # fmt: skip
    """Columns (batch, channels * window, positions) added up where `unfold` takes them from."""
    size, kernel = per_dim(output_size, 2), per_dim(kernel_size, 2)
    gap, edge, step = per_dim(dilation, 2), per_dim(padding, 2), per_dim(stride, 2)
    parts = zip(size, kernel, gap, edge, step, strict=True)
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in parts]
    _check_fold(input, (size, kernel, gap, edge, step), counts)
    batch = unsqueeze(input, 0) if input.dim() == 2 else input
    shape = (batch._shape[0], batch._shape[1] // math.prod(kernel), *kernel, *counts)
    wide = reshape(batch, shape).permute(0, 1, 4, 5, 2, 3)
    for i in (1, 0):
        wide = apply(ops.fold_dim, (wide, 2 + i, size[i] + 2 * edge[i], step[i], gap[i]))
        wide = narrow(wide, 2 + i, edge[i], size[i])
    return unbatched(wide, input.dim() == 2)


def _check_fold(input: Tensor, settings: tuple[tuple[int, ...], ...], counts: list[int]) -> None:
    if input.dim() not in (2, 3):
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(input._shape)}"
        )
    *_, rows, columns = input._shape
    kernel = settings[1]
    if rows % math.prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={rows} and kernel_size=({kernel[0]}, {kernel[1]})."
        )
    if columns != math.prod(counts):
        names = ("output_size", "kernel_size", "dilation", "padding", "stride")
        given = ", ".join(f"{n}=({a}, {b})" for n, (a, b) in zip(names, settings, strict=True))
        raise RuntimeError(
            f"Given {given}, expected size of input's dimension 2 to match the calculated number "
            f"of sliding blocks {counts[0]} * {counts[1]} = {math.prod(counts)}, but got "
            f"input.size(2)={columns}."
        )


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    *lead, c, h, w = input._shape
    r = downscale_factor
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    n = len(lead)
    order = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return apply(ops.reshape, (split.permute(order), (*lead, c * r * r, h // r, w // r)))


# Autocast casts their operands.
(avg_pool3d, adaptive_avg_pool3d) = follow_all(
    avg_pool3d, adaptive_avg_pool3d
)  # fmt: skip
__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "fold", "max_pool1d", "max_pool2d", "max_pool3d", "pad", "pixel_shuffle",
    "pixel_unshuffle", "unfold",
]  # fmt: skip
