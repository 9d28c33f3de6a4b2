"""nn.functional: convolution, pooling, padding, unfold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import ops
from rushlight.ir.node import const_node
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import arange, number_node
from rushlight.tensors.functions_shape import flip, pixel_shuffle
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_view import reshape, unsqueeze
from rushlight.tensors.tensor import Tensor, new_tensor
from rushlight.tensors.type_names import cpp_name


def _times(value: Any, count: int) -> tuple[int, ...]:
    """One int for all dims, or one per dim."""
    if isinstance(value, int):
        return (value,) * count
    values = tuple(int(v) for v in value)
    return values * count if len(values) == 1 else values


def _batched(input: Tensor, spatial: int, name: str) -> tuple[Tensor, bool]:
    if input.dim() == spatial + 1:
        return unsqueeze(input, 0), True
    if input.dim() != spatial + 2:
        raise RuntimeError(
            f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to {name}, but "
            f"got input of size: {list(input._shape)}"
        )
    return input, False


def _unbatched(result: Tensor, single: bool) -> Tensor:
    return result.squeeze(0) if single else result


def _conv(spatial: int) -> Callable:
    name = f"conv{spatial}d"

    def function(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        batch, single = _batched(input, spatial, name)
        _check_conv(batch, weight, bias, groups)
        stride, dilation = _times(stride, spatial), _times(dilation, spatial)
        if isinstance(padding, str):
            batch, padding = _string_padding(batch, weight, padding, stride, dilation)
        args = (batch, weight, bias, stride, _times(padding, spatial), dilation, groups)
        result = apply(getattr(ops, name), args, label="ConvolutionBackward0")
        return _unbatched(result, single)

    function.__name__ = name
    return function


def _check_conv(input: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> None:
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
        batch, single = _batched(input, spatial, name)
        args = (
            batch, weight, bias, _times(stride, spatial), _times(padding, spatial),
            _times(output_padding, spatial), groups, _times(dilation, spatial),
        )  # fmt: skip
        result = apply(getattr(ops, name), args, label="ConvolutionBackward0")
        return _unbatched(result, single)

    function.__name__ = name
    return function


conv_transpose1d, conv_transpose2d, conv_transpose3d = (_conv_transpose(n) for n in (1, 2, 3))


# Pooling -----------------------------------------------------------------------------------


def _max_pool(spatial: int) -> Callable:
    name = f"max_pool{spatial}d"

    def function(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        batch, single = _batched(input, spatial, name)
        kernel = _times(kernel_size, spatial)
        step = _times(stride, spatial) if stride else kernel
        args = (batch, kernel, step, _times(padding, spatial), _times(dilation, spatial), ceil_mode)
        label = f"MaxPool{spatial}DWithIndicesBackward0"
        result = _unbatched(apply(getattr(ops, name), args, label=label), single)
        if not return_indices:
            return result
        return result, _unbatched(apply(getattr(ops, f"{name}_index"), args), single)

    function.__name__ = name
    return function


max_pool1d, max_pool2d, max_pool3d = (_max_pool(n) for n in (1, 2, 3))


def _avg_pool(spatial: int) -> Callable:
    name = f"avg_pool{spatial}d"

    def function(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None,
    ) -> Tensor:  # fmt: skip
        batch, single = _batched(input, spatial, name)
        kernel = _times(kernel_size, spatial)
        step = _times(stride, spatial) if stride else kernel
        args = (batch, kernel, step, _times(padding, spatial), ceil_mode, count_include_pad,
                divisor_override)  # fmt: skip
        return _unbatched(apply(getattr(ops, name), args), single)

    function.__name__ = name
    return function


avg_pool1d, avg_pool2d, avg_pool3d = (_avg_pool(n) for n in (1, 2, 3))


def _output_size(input: Tensor, size: Any, spatial: int) -> tuple[int, ...]:
    values = (size,) * spatial if size is None or isinstance(size, int) else tuple(size)
    have = input._shape[-spatial:]
    return tuple(h if v is None else int(v) for v, h in zip(values, have, strict=True))


def _adaptive_avg(spatial: int) -> Callable:
    name = f"adaptive_avg_pool{spatial}d"

    def function(input: Tensor, output_size: Any) -> Tensor:
        batch, single = _batched(input, spatial, name)
        size = _output_size(input, output_size, spatial)
        return _unbatched(apply(getattr(ops, name), (batch, size)), single)

    function.__name__ = name
    return function


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg, (1, 2, 3))


# Padding -----------------------------------------------------------------------------------


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """(before, after) for the last dim first. Negative amounts cut."""
    amounts = [int(p) for p in pad]
    if len(amounts) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(amounts) // 2 > input.dim():
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(amounts)} and input of dimension {input.dim()}"
        )
    pairs = {
        input.dim() - 1 - i: (amounts[2 * i], amounts[2 * i + 1]) for i in range(len(amounts) // 2)
    }
    for dim, (low, high) in pairs.items():
        cut_low, cut_high = max(-low, 0), max(-high, 0)
        if mode == "replicate" and (cut_low or cut_high):
            size = input._shape[dim]
            input = input.index_select(dim, arange(-low, size + high).clamp(0, size - 1))
            pairs[dim] = (0, 0)
        elif cut_low or cut_high:
            input = narrow(input, dim, cut_low, input._shape[dim] - cut_low - cut_high)
    if mode != "constant":
        for dim, (low, high) in sorted(pairs.items(), reverse=True):
            input = _pad_dim(input, dim, max(low, 0), max(high, 0), mode)
        return input
    lows = tuple(max(pairs.get(d, (0, 0))[0], 0) for d in range(input.dim()))
    highs = tuple(max(pairs.get(d, (0, 0))[1], 0) for d in range(input.dim()))
    if not any(lows) and not any(highs):
        return input.clone()
    fill = const_node(0, input._dtype) if not value else number_node(value, input._dtype)
    args = (input, new_tensor(fill), lows, highs, (0,) * input.dim())
    return apply(ops.pad, args, label="ConstantPadNdBackward0")


def _pad_dim(input: Tensor, dim: int, low: int, high: int, mode: str) -> Tensor:
    size = input._shape[dim]
    if mode == "reflect":
        if max(low, high) >= size:
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, "
                f"but got: padding ({low}, {high}) at dimension {dim} of input {list(input._shape)}"
            )
        before = flip(narrow(input, dim, 1, low), dim) if low else None
        after = flip(narrow(input, dim, size - 1 - high, high), dim) if high else None
    elif mode == "replicate":

        def edge(at: int, count: int) -> Tensor:
            shape = [count if d == dim else -1 for d in range(input.dim())]
            return narrow(input, dim, at, 1).expand(shape)

        before = edge(0, low) if low else None
        after = edge(size - 1, high) if high else None
    elif mode == "circular":
        if max(low, high) > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        before = narrow(input, dim, size - low, low) if low else None
        after = narrow(input, dim, 0, high) if high else None
    else:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    parts = [part for part in (before, input, after) if part is not None]
    return apply(ops.cat, (parts, dim)) if len(parts) > 1 else input


def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Windows of images as columns: (batch, channels * window, positions)."""
    batch, single = _batched(input, 2, "unfold")
    kh, kw = _times(kernel_size, 2)
    (dh, dw), (ph, pw), (sh, sw) = _times(dilation, 2), _times(padding, 2), _times(stride, 2)
    padded = pad(batch, (pw, pw, ph, ph))
    wide = apply(ops.unfold, (apply(ops.unfold, (padded, 2, kh, sh, dh)), 3, kw, sw, dw))
    n, c, rows, columns = wide._shape[:4]
    result = reshape(wide.permute(0, 1, 4, 5, 2, 3), (n, c * kh * kw, rows * columns))
    return _unbatched(result, single)


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Tensor:  # fmt: skip
    """Columns (batch, channels * window, positions) added up where `unfold` takes them from."""
    size, kernel = _times(output_size, 2), _times(kernel_size, 2)
    gap, edge, step = _times(dilation, 2), _times(padding, 2), _times(stride, 2)
    parts = zip(size, kernel, gap, edge, step, strict=True)
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in parts]
    _check_fold(input, (size, kernel, gap, edge, step), counts)
    batch = unsqueeze(input, 0) if input.dim() == 2 else input
    shape = (batch._shape[0], batch._shape[1] // math.prod(kernel), *kernel, *counts)
    wide = reshape(batch, shape).permute(0, 1, 4, 5, 2, 3)
    for i in (1, 0):
        wide = apply(ops.fold_dim, (wide, 2 + i, size[i] + 2 * edge[i], step[i], gap[i]))
        wide = narrow(wide, 2 + i, edge[i], size[i])
    return _unbatched(wide, input.dim() == 2)


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
    return reshape(split.permute(order), (*lead, c * r * r, h // r, w // r))


__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "fold", "max_pool1d", "max_pool2d", "max_pool3d", "pad", "pixel_shuffle",
    "pixel_unshuffle", "unfold",
]  # fmt: skip
