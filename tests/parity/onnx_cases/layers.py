"""ONNX's layers: products, windows, norms, losses, attention, spectra, by Rushlight's functions.

As elementwise.py: tensors and attributes in, tensors out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from elementwise import DTYPES

import rushlight as torch

F = torch.nn.functional
CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def matmul(a: Any, b: Any) -> Any:
    return torch.matmul(a, b)


def gemm(
    a: Any, b: Any, c: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
) -> Any:  # fmt: skip
    made = alpha * ((a.T if transA else a) @ (b.T if transB else b))
    return made if c is None else made + beta * c


def einsum(*values: Any, equation: str) -> Any:
    return torch.einsum(equation, *values)


def placed(
    x: Any, kernel: Sequence[int], pads: Any, auto_pad: str, strides: Any, dilations: Any,
    fill: float = 0.0,
) -> tuple[Any, list[int], list[int]]:  # fmt: skip
    """The padded input, strides and dilations."""
    n = len(kernel)
    step, wide = strides or [1] * n, dilations or [1] * n
    low, high = ([0] * n, [0] * n) if not pads else (list(pads[:n]), list(pads[n:]))
    if auto_pad.startswith("SAME"):
        for i in range(n):
            size = x.shape[2 + i]
            need = max(
                (-(-size // step[i]) - 1) * step[i] + wide[i] * (kernel[i] - 1) + 1 - size, 0
            )
            low[i] = need // 2 if auto_pad == "SAME_UPPER" else need - need // 2
            high[i] = need - low[i]
    amounts = [p for i in reversed(range(n)) for p in (low[i], high[i])]
    return (F.pad(x, amounts, value=fill) if any(amounts) else x), list(step), list(wide)


def conv(
    x: Any, w: Any, b: Any = None, kernel_shape: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET", strides: Any = None, dilations: Any = None, group: int = 1,
) -> Any:  # fmt: skip
    x, step, wide = placed(x, list(w.shape[2:]), pads, auto_pad, strides, dilations)
    return CONVOLUTIONS[len(step) - 1](x, w, b, step, 0, wide, group)


def conv_transpose(
    x: Any, w: Any, b: Any = None, kernel_shape: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET", strides: Any = None, dilations: Any = None, group: int = 1,
    output_padding: Any = None, output_shape: Any = None,
) -> Any:  # fmt: skip
    n = w.dim() - 2
    step, wide = strides or [1] * n, dilations or [1] * n
    more = output_padding or [0] * n
    made = TRANSPOSED[n - 1](x, w, b, step, 0, 0, group, wide)
    made = F.pad(made, [p for i in reversed(range(n)) for p in (0, more[i])])
    low, high = ([0] * n, [0] * n) if not pads else (list(pads[:n]), list(pads[n:]))
    if output_shape or auto_pad.startswith("SAME"):
        want = output_shape or [x.shape[2 + i] * step[i] for i in range(n)]
        for i in range(n):
            extra = made.shape[2 + i] - want[-n:][i]
            half = extra // 2
            low[i] = half if auto_pad == "SAME_UPPER" else extra - half
            high[i] = extra - low[i]
    return F.pad(made, [-p for i in reversed(range(n)) for p in (low[i], high[i])])


def windows(x: Any, kernel: Sequence[int], step: Sequence[int], wide: Sequence[int]) -> Any:
    """Every window as the last dims."""
    for i, (size, by, gap) in enumerate(zip(kernel, step, wide, strict=True)):
        x = x.unfold(2 + i, (size - 1) * gap + 1, by)[..., ::gap]
    return x


def ceil_pad(
    x: Any, kernel: Sequence[int], step: Any, wide: Any, fill: float, pads: Any
) -> Any:  # fmt: skip
    """Room for a last window that begins inside, but not in the padding behind."""
    amounts: list[int] = []
    for i in reversed(range(len(kernel))):
        span, size = (kernel[i] - 1) * wide[i] + 1, x.shape[2 + i]
        last = -(-(size - span) // step[i]) * step[i]
        behind = pads[len(kernel) + i] if pads else 0
        last -= step[i] if last >= size - behind else 0
        amounts += [0, last + span - size]
    return F.pad(x, amounts, value=fill)


def pooled(
    x: Any, kernel_shape: Any, pads: Any, auto_pad: str, strides: Any, dilations: Any,
    ceil_mode: int, fill: float,
) -> Any:  # fmt: skip
    padded, step, wide = placed(x, kernel_shape, pads, auto_pad, strides, dilations, fill)
    padded = ceil_pad(padded, kernel_shape, step, wide, fill, pads) if ceil_mode else padded
    return windows(padded, kernel_shape, step, wide)


def average_pool(
    x: Any, kernel_shape: Any, pads: Any = None, auto_pad: str = "NOTSET", strides: Any = None,
    dilations: Any = None, ceil_mode: int = 0, count_include_pad: int = 0,
) -> Any:  # fmt: skip
    options = (kernel_shape, pads, auto_pad, strides, dilations, ceil_mode, 0.0)
    dims = tuple(range(-len(kernel_shape), 0))
    total = pooled(x, *options).sum(dims)
    there = torch.ones_like(x)
    if count_include_pad:
        there, step, wide = placed(there, kernel_shape, pads, auto_pad, strides, dilations, 1.0)
        there = ceil_pad(there, kernel_shape, step, wide, 0.0, pads) if ceil_mode else there
        return total / windows(there, kernel_shape, step, wide).sum(dims)
    return total / pooled(there, *options).sum(dims)


def max_pool(
    x: Any, kernel_shape: Any, pads: Any = None, auto_pad: str = "NOTSET", strides: Any = None,
    dilations: Any = None, ceil_mode: int = 0, storage_order: int = 0,
) -> Any:  # fmt: skip
    low = float("-inf") if x.is_floating_point() else torch.iinfo(x.dtype).min
    options = (kernel_shape, pads, auto_pad, strides, dilations, ceil_mode)
    n = len(kernel_shape)
    found = pooled(x, *options, low).flatten(-n)
    places = torch.arange(math.prod(x.shape), dtype=torch.int64).reshape(x.shape)
    if storage_order:
        order = (0, 1, *reversed(range(2, x.dim())))
        turned = torch.arange(math.prod(x.shape)).reshape([x.shape[d] for d in order])
        places = turned.permute(order)
    at = pooled(places, *options, 0).flatten(-n)
    best = found.argmax(-1, keepdim=True)
    return found.amax(-1), at.gather(-1, best).squeeze(-1)


def lp_pool(
    x: Any, kernel_shape: Any, pads: Any = None, auto_pad: str = "NOTSET", strides: Any = None,
    dilations: Any = None, ceil_mode: int = 0, p: int = 2,
) -> Any:  # fmt: skip
    found = pooled(x, kernel_shape, pads, auto_pad, strides, dilations, ceil_mode, 0.0)
    return (found.abs() ** p).sum(tuple(range(-len(kernel_shape), 0))) ** (1 / p)


def spatial(x: Any) -> tuple[int, ...]:
    return tuple(range(2, x.dim()))


def batch_norm(
    x: Any, scale: Any, b: Any, mean: Any, var: Any, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0,
) -> Any:  # fmt: skip
    if not training_mode:
        return F.batch_norm(x, mean, var, scale, b, False, 0.1, epsilon)
    dims = (0, *spatial(x))
    now_mean, now_var = x.mean(dims), x.var(dims, correction=0)
    made = F.batch_norm(x, None, None, scale, b, True, 0.1, epsilon)
    keep = 1 - momentum
    return made, mean * momentum + now_mean * keep, var * momentum + now_var * keep


def layer_norm(
    x: Any, scale: Any, b: Any = None, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    dims = tuple(range(axis % x.dim(), x.dim()))
    mean = x.mean(dims, keepdim=True)
    scaling = torch.rsqrt(((x - mean) ** 2).mean(dims, keepdim=True) + epsilon)
    made = F.layer_norm(x, tuple(x.shape[d] for d in dims), None, None, epsilon) * scale
    return (made if b is None else made + b), mean, scaling


def rms_norm(x: Any, scale: Any, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    return F.rms_norm(x, x.shape[axis % x.dim() :], None, epsilon) * scale


def instance_norm(x: Any, scale: Any, b: Any, epsilon: float = 1e-5) -> Any:
    return F.instance_norm(x, None, None, scale, b, True, 0.1, epsilon)


def group_norm(
    x: Any, scale: Any, b: Any, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    return F.group_norm(x, num_groups, scale, b, epsilon)


def lrn(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    low, high = (size - 1) // 2, size // 2
    squares = F.pad(x * x, [0, 0] * (x.dim() - 2) + [low, high])
    return x / (bias + alpha / size * squares.unfold(1, size, 1).sum(-1)) ** beta


def lp_normalization(x: Any, axis: int = -1, p: int = 2) -> Any:
    size = torch.linalg.vector_norm(x, p, axis, keepdim=True)
    return torch.where(size == 0, torch.zeros_like(x), x / size)


def mean_variance(x: Any, axes: Sequence[int] = (0, 2, 3)) -> Any:
    dims = tuple(axes)
    apart = x - x.mean(dims, keepdim=True)
    return apart / ((apart * apart).mean(dims, keepdim=True).sqrt() + 1e-9)


def nll_loss(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean", ignore_index: int = -(1 << 40)
) -> Any:
    target = target.to(torch.int64)
    return F.nll_loss(x, target, weight, reduction=reduction, ignore_index=ignore_index)


def cross_entropy(x: Any, *args: Any, **options: Any) -> Any:
    logs = F.log_softmax(x, 1)
    return nll_loss(logs, *args, **options), logs


def grid_sample(
    x: Any, grid: Any, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Any:
    names = {"linear": "bilinear", "cubic": "bicubic"}
    mode = names.get(mode, mode)
    return F.grid_sample(x, grid, mode, padding_mode, bool(align_corners))


def affine_grid(theta: Any, size: Any, align_corners: int = 0) -> Any:
    return F.affine_grid(theta, [int(n) for n in size.tolist()], bool(align_corners))


def resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel", nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75, **other: Any,
) -> Any:  # fmt: skip
    """The modes that F.interpolate has."""
    align = coordinate_transformation_mode == "align_corners"
    pytorch = {("linear", 3): "linear", ("linear", 4): "bilinear", ("linear", 5): "trilinear",
               ("cubic", 4): "bicubic"}  # fmt: skip
    name = pytorch.get((mode, x.dim()))
    known = coordinate_transformation_mode in ("half_pixel", "align_corners")
    if name is None or not known or other or cubic_coeff_a != -0.75:
        raise NotImplementedError("Resize: no function of PyTorch's does this")
    if scales is not None and scales.numel():
        if align:  # the corners of a size that is not whole
            raise NotImplementedError("Resize: align_corners with scales")
        given = scales.tolist()
        return F.interpolate(x, None, tuple(given[2:]), name, align, recompute_scale_factor=False)
    return F.interpolate(x, tuple(int(n) for n in sizes.tolist()[2:]), None, name, align)


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None, past_value: Any = None,
    lengths: Any = None, is_causal: int = 0, scale: float | None = None,
    q_num_heads: int = 0, kv_num_heads: int = 0, **other: Any,
) -> Any:  # fmt: skip
    if other or lengths is not None:
        raise NotImplementedError(f"Attention: {', '.join(other) or 'nonpad_kv_seqlen'}")
    packed = q.dim() == 3
    if packed:
        q, k, v = (
            x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)
            for x, heads in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads))
        )
    if past_key is not None:
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    if is_causal:
        rows, columns = torch.arange(q.shape[2]), torch.arange(k.shape[2])
        seen = columns <= rows.reshape(-1, 1) + (
            k.shape[2] - q.shape[2] if past_key is not None else 0
        )
        own = torch.zeros(seen.shape).masked_fill(~seen, float("-inf")).to(q.dtype)
        if mask is not None and mask.dtype is torch.bool:
            mask = torch.zeros(mask.shape).masked_fill(~mask, float("-inf")).to(q.dtype)
        mask = own if mask is None else mask + own
    made = F.scaled_dot_product_attention(
        q, k, v, mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    if packed:
        made = made.transpose(1, 2).reshape(made.shape[0], made.shape[2], -1)
    return made, k, v


def dropout(x: Any, ratio: Any = None, training: Any = None, seed: int = 0) -> Any:
    if training is not None and training.item() and (ratio is None or ratio.item()):
        raise NotImplementedError("Dropout: another generator's numbers")
    return x, torch.ones(x.shape, dtype=torch.bool)


def col2im(
    x: Any, image: Any, block: Any, strides: Any = None, pads: Any = None, dilations: Any = None
) -> Any:
    n = image.numel()
    if n != 2 or (pads and pads[:n] != pads[n:]):
        raise NotImplementedError("Col2Im: F.fold has two dims and equal padding")
    sizes, kernel = tuple(image.tolist()), tuple(block.tolist())
    return F.fold(x, sizes, kernel, dilations or 1, tuple(pads[:n]) if pads else 0, strides or 1)


def window(function: Callable, **own: float) -> Callable:
    def run(size: Any, periodic: int = 1, output_datatype: int = 1) -> Any:
        made = function(int(size.item()), periodic=bool(periodic), dtype=torch.float64, **own)
        return made.to(DTYPES[output_datatype])

    return run


def dft(x: Any, length: Any = None, axis: Any = None, inverse: int = 0, onesided: int = 0) -> Any:
    dim = -2 if axis is None else int(axis if isinstance(axis, int) else axis.item())
    dim = dim % x.dim()
    n = None if length is None else int(length.item())
    if x.shape[-1] == 1:
        real = x.squeeze(-1)
        made = torch.fft.rfft(real, n, dim) if onesided else torch.fft.fft(real, n, dim)
        return torch.view_as_real(made)
    if onesided and inverse:
        return torch.fft.irfft(torch.view_as_complex(x.contiguous()), n, dim).unsqueeze(-1)
    whole = torch.view_as_complex(x.contiguous())
    return torch.view_as_real((torch.fft.ifft if inverse else torch.fft.fft)(whole, n, dim))


TABLE: dict[str, Callable] = {
    "MatMul": matmul, "Gemm": gemm, "Einsum": einsum, "Conv": conv,
    "ConvTranspose": conv_transpose, "AveragePool": average_pool, "MaxPool": max_pool,
    "LpPool": lp_pool, "GlobalAveragePool": lambda x: x.mean(spatial(x), keepdim=True),
    "GlobalMaxPool": lambda x: x.amax(spatial(x), keepdim=True), "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm, "RMSNormalization": rms_norm,
    "InstanceNormalization": instance_norm, "GroupNormalization": group_norm, "LRN": lrn,
    "LpNormalization": lp_normalization, "MeanVarianceNormalization": mean_variance,
    "NegativeLogLikelihoodLoss": nll_loss, "SoftmaxCrossEntropyLoss": cross_entropy,
    "GridSample": grid_sample, "AffineGrid": affine_grid, "Resize": resize,
    "Dropout": dropout, "Col2Im": col2im, "Attention": attention, "DFT": dft,
    "HannWindow": window(torch.hann_window),
    "HammingWindow": window(torch.hamming_window, alpha=25 / 46, beta=21 / 46),
    "BlackmanWindow": window(torch.blackman_window),
}  # fmt: skip
