"""Convolutions in 1, 2 and 3 dims through pad, unfold and dot (implicit im2col).

Shapes: N batch, C channels in, O channels out, G groups, P output positions, K = C/G * kernel.
The weight is the left operand, so the product lies as the output does: (N, G, O/G, P).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.ir.opdef import Arg, Attr, Call, OpDef
from rushlight.ir.symint_math import product
from rushlight.ops.binary import add
from rushlight.ops.build import conj_of, expand_to, to_dtype
from rushlight.ops.composite import composite
from rushlight.ops.conv_depthwise import depthwise, depthwise_weight_back, is_depthwise
from rushlight.ops.conv_phases import phases_back, suits_phases
from rushlight.ops.conv_sliding import OUTPUTS, TAPS, slides
from rushlight.ops.indexed import dot, dot_sliding
from rushlight.ops.meta import Meta
from rushlight.ops.movement import flip, permute, reshape, slice_
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import Shape, common_dtype, is_static, refuse_bool
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.window import pad_space, unfold, window_count

MOST_PHASES = 9  # phases of a stride that get a product, and so a kernel, of their own


def windows_of(x: Any, kernel: Sequence[Any], stride: Any, dilation: Any) -> Any:
    """x[N, C, *space] -> [N, C, *positions, *kernel]."""
    for i, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True)):
        x = unfold(x, 2 + i, size, step, gap)
    return x


def columns_of(windows: Any, spatial: int, groups: int) -> Any:
    """[N, C, *positions, *kernel] -> [N, G, K, P]."""
    shape = windows.shape
    positions, kernel = shape[2 : 2 + spatial], shape[2 + spatial :]
    order = (0, 1, *range(2 + spatial, 2 + 2 * spatial), *range(2, 2 + spatial))
    moved = permute(windows, order)
    inner = product((shape[1] // groups, *kernel))
    return reshape(moved, (shape[0], groups, inner, product(positions)))


def correlate(
    x: Any, weight: Any, stride: Any, dilation: Any, groups: int, sliding: bool = False
) -> Any:
    """The products of all windows of x (padded already) with weight[O, C/G, *kernel]. sliding: by
    fewer multiplications (conv_sliding.py)."""
    if is_depthwise(x.shape[1], weight.shape[0], weight.shape[2:], groups):
        return depthwise(x, weight, stride, dilation)
    spatial = x.ndim - 2
    windows = windows_of(x, weight.shape[2:], stride, dilation)
    positions = windows.shape[2 : 2 + spatial]
    columns = columns_of(windows, spatial, groups)
    out = weight.shape[0]
    batch, inner, places = columns.shape[0], columns.shape[2], columns.shape[3]
    counts = (OUTPUTS, TAPS) if sliding else ()
    multiply = dot_sliding if sliding else dot
    if groups == 1:
        rows = expand_to(reshape(weight, (out, inner)), (), (batch, out, inner))
        result = multiply(rows, reshape(columns, (batch, inner, places)), *counts)
    else:
        rows = reshape(weight, (1, groups, out // groups, inner))
        rows = expand_to(rows, rows.shape, (batch, *rows.shape[1:]))
        result = multiply(rows, columns, *counts)
    return reshape(result, (batch, out, *positions))


def per_channel(bias: Any, ndim: int) -> Any:
    """A vector over dimension 1."""
    return reshape(bias, (*bias.shape, *(1,) * (ndim - 2)))


def conv_decompose(
    input: Any,  # noqa: A002
    weight: Any,
    bias: Any = None,
    stride: Any = (1,),
    padding: Any = (0,),
    dilation: Any = (1,),
    groups: int = 1,
    sliding: bool = False,
) -> Any:
    padded = pad_space(input, padding, padding, 0)
    if bias is None:
        return correlate(padded, weight, stride, dilation, groups, sliding)
    wide = input.dtype.compute  # one rounding, after the sum
    padded, weight, bias = (to_dtype(x, wide) for x in (padded, weight, bias))
    out = correlate(padded, weight, stride, dilation, groups, sliding)
    return to_dtype(add(out, per_channel(bias, out.ndim)), input.dtype)


def swapped_weight(weight: Any, groups: int) -> Any:
    """[O, C/G, *kernel] -> [C, O/G, *kernel], the kernel turned round: for the way back."""
    out, inner, *kernel = weight.shape
    space = range(2, weight.ndim)
    split = reshape(weight, (groups, out // groups, inner, *kernel))
    moved = permute(split, (0, 2, 1, *(d + 1 for d in space)))
    return flip(reshape(moved, (groups * inner, out // groups, *kernel)), tuple(space))


def spread_back(
    g: Any, weight: Any, space: Sequence[Any], stride: Any, padding: Any, dilation: Any,
    groups: int, sliding: bool = False,
) -> Any:  # fmt: skip
    """The gradient of the input of a convolution: a convolution of the spread-out g, or several
    where a stride would spread it out. sliding: by fewer multiplications.

    With `reach` the kernel's extent less one, low = reach - padding; where that is negative, the
    padded input's gradient is computed and cut.
    """
    kernel = weight.shape[2:]
    phases = product(stride)
    few = isinstance(phases, int) and phases <= MOST_PHASES
    if few and suits_phases((*space, *kernel, *g.shape[2:]), stride, dilation):
        one = (1,) * len(kernel)
        shape = (g.shape[0], weight.shape[1] * groups, *space)
        return phases_back(
            g, weight, shape, stride, padding,
            lambda spread, part: correlate(spread, swapped_weight(part, groups), one, one, groups),
        )  # fmt: skip
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    cuts = any(is_static(r) and p > r for p, r in zip(padding, reach, strict=True))
    given = (0,) * len(reach) if cuts else padding
    whole = [s + 2 * p if cuts else s for s, p in zip(space, padding, strict=True)]
    parts = list(zip(stride, dilation, kernel, strict=True))
    if any(s > 1 for s in stride) and all(s == 1 or (d == 1 and is_static(k)) for s, d, k in parts):
        result = back_in_one(g, weight, whole, stride, given, dilation, groups)
        if not cuts:
            return result
        return slice_(result, (0, 0, *padding), (*result.shape[:2], *space), (1,) * result.ndim)
    low = [r - p for r, p in zip(reach, given, strict=True)]
    high = [
        total + p - ((n - 1) * step + 1)
        for total, p, n, step in zip(whole, given, g.shape[2:], stride, strict=True)
    ]
    spread = pad_space(g, low, high, 0, [s - 1 for s in stride])
    ones = (1,) * len(reach)
    result = correlate(spread, swapped_weight(weight, groups), ones, dilation, groups, sliding)
    if not cuts:
        return result
    lengths = (*result.shape[:2], *space)
    return slice_(result, (0, 0, *padding), lengths, (1,) * result.ndim)


def back_in_one(
    g: Any, weight: Any, space: Sequence[Any], stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """As `phases_back`, all phases in one product: where they are many, or sizes are unknown.

    Padded position q * stride + r gets only taps u * stride + r, from g at q - u. So each phase r
    is a convolution of g itself; the phases are channels of one, put between each other.
    """
    kernel, spatial = weight.shape[2:], len(space)
    taps = [k if s == 1 else -(-k // s) for k, s in zip(kernel, stride, strict=True)]
    low = [(t - 1) * d - p // s for t, d, p, s in zip(taps, dilation, padding, stride, strict=True)]
    high = [
        (p + total - 1) // s - (n - 1)
        for p, total, s, n in zip(padding, space, stride, g.shape[2:], strict=True)
    ]
    phases = _phase_weight(weight, taps, stride, groups)
    made = correlate(pad_space(g, low, high, 0), phases, (1,) * spatial, dilation, groups)
    batch, channels, places = made.shape[0], weight.shape[1] * groups, made.shape[2:]
    apart = reshape(made, (batch, channels, *stride, *places))
    order = [d for i in range(spatial) for d in (2 + spatial + i, 2 + i)]
    sizes = [n * s for n, s in zip(places, stride, strict=True)]
    joined = reshape(permute(apart, (0, 1, *order)), (batch, channels, *sizes))
    start = (0, 0, *(p % s for p, s in zip(padding, stride, strict=True)))
    return slice_(joined, start, (batch, channels, *space), (1,) * joined.ndim)


def _phase_weight(weight: Any, taps: Sequence[Any], stride: Any, groups: int) -> Any:
    """[O, C/G, *kernel] -> [C * phases, O/G, *taps], the taps of a phase turned round."""
    spatial = len(taps)
    more = [t * s - k for t, s, k in zip(taps, stride, weight.shape[2:], strict=True)]
    # Turned round by `swapped_weight`, and back: here only the taps of a phase are.
    plain = flip(swapped_weight(weight, groups), tuple(range(2, weight.ndim)))
    whole = pad_space(plain, (0,) * spatial, more, 0)
    channels, inner = whole.shape[:2]
    split = [size for pair in zip(taps, stride, strict=True) for size in pair]
    of_tap, of_phase = range(2, 2 + 2 * spatial, 2), range(3, 3 + 2 * spatial, 2)
    apart = flip(reshape(whole, (channels, inner, *split)), tuple(of_tap))
    moved = permute(apart, (0, *of_phase, 1, *of_tap))
    return reshape(moved, (channels * product(stride), inner, *taps))


def weight_back(
    g: Any, x: Any, kernel: Sequence[Any], stride: Any, padding: Any, dilation: Any, groups: int,
    sliding: bool = False,
) -> Any:  # fmt: skip
    """The gradient of the weight: one product over all batches and positions."""
    spatial = x.ndim - 2
    padded = pad_space(x, padding, padding, 0)
    if is_depthwise(x.shape[1], g.shape[1], kernel, groups):
        return depthwise_weight_back(g, padded, kernel, stride, dilation)
    used = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(g.shape[2:], stride, kernel, dilation, strict=True)
    ]
    if tuple(used) != padded.shape[2:]:
        lengths = (*padded.shape[:2], *used)
        padded = slice_(padded, (0,) * padded.ndim, lengths, (1,) * padded.ndim)
    columns = columns_of(windows_of(padded, kernel, stride, dilation), spatial, groups)
    batch, inner, places = columns.shape[0], columns.shape[2], columns.shape[3]
    out = g.shape[1]
    rows = permute(reshape(g, (batch, groups, out // groups, places)), (1, 2, 0, 3))
    rows = reshape(rows, (groups, out // groups, batch * places))
    lines = reshape(permute(columns, (1, 0, 3, 2)), (groups, batch * places, inner))
    product_ = dot_sliding(rows, lines, TAPS, OUTPUTS) if sliding else dot(rows, lines)
    return reshape(product_, (out, x.shape[1] // groups, *kernel))


def conv_grad(
    g: Any,
    input: Any,  # noqa: A002
    weight: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    meta: Meta,
) -> tuple:
    by_input = by_weight = by_bias = None
    settings = (stride, padding, dilation, groups)
    shape, kernel = meta.shape("input"), meta.shape("weight")
    if meta.needs("input"):
        turned = (kernel[1] * groups, kernel[0] // groups, *kernel[2:])
        fast = slides(g.dtype, shape[-1], turned, *settings)
        by_input = spread_back(g, conj_of(weight), shape[2:], *settings, fast)
    if meta.needs("weight"):
        fast = slides(g.dtype, g.shape[-1], kernel, *settings)
        by_weight = weight_back(g, conj_of(input), kernel[2:], *settings, fast)
    if meta.needs("bias"):
        by_bias = reduce_sum(g, (0, *range(2, g.ndim)))
    return by_input, by_weight, by_bias


def conv_shape(call: Call) -> Shape:
    x, weight = call["input"].shape, call["weight"].shape
    space = [
        window_count(size + 2 * p, k, s, d)
        for size, k, s, p, d in zip(
            x[2:], weight[2:], call["stride"], call["padding"], call["dilation"], strict=True
        )
    ]
    return (x[0], weight[0], *space)


def check_conv(call: Call) -> None:
    x, weight, groups = call["input"].shape, call["weight"].shape, call["groups"]
    spatial = int(call.op.name[-2])
    if len(x) != spatial + 2 or len(weight) != spatial + 2:
        raise RuntimeError(
            f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to "
            f"{call.op.name}, but got input of size: {list(x)}"
        )
    if is_static(x[1]) and is_static(weight[1]) and x[1] != weight[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight)}, expected input{list(x)} to "
            f"have {weight[1] * groups} channels, but got {x[1]} channels instead"
        )
    if is_static(weight[0]) and weight[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size {list(weight)} instead"
        )
    check_bias(call, "", weight[0])
    padded = [n + 2 * p for n, p in zip(x[2:], call["padding"], strict=True)]
    reach = [(k - 1) * d + 1 for k, d in zip(weight[2:], call["dilation"], strict=True)]
    if any(is_static(n) and is_static(r) and r > n for n, r in zip(padded, reach, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel "
            f"size: ({' x '.join(map(str, reach))}). Kernel size can't be greater than actual "
            "input size"
        )


def check_bias(call: Call, lead: str, count: Any) -> None:
    """The bias has one number for each channel of the result; bools are not convolved."""
    refuse_bool(call)
    have = () if call["bias"] is None else call["bias"].shape
    fits = len(have) == 1 and (have[0] == count or not (is_static(have[0]) and is_static(count)))
    if call["bias"] is not None and not fits:
        raise RuntimeError(
            f"Given {lead}weight of size {list(call['weight'].shape)}, expected bias to be "
            f"1-dimensional with {count} elements, but got bias of size {list(have)} instead"
        )


def conv_reference(
    x: np.ndarray, weight: np.ndarray, bias: Any, stride: Any, padding: Any, dilation: Any,
    groups: int, sliding: bool = False,
) -> np.ndarray:  # fmt: skip
    """Tap by tap: out += x[..., start :: stride] * w[tap]."""
    spatial, out = x.ndim - 2, weight.shape[0]
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], weight.shape[2:], stride, dilation, strict=True)
    ]
    split = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    rows = weight.reshape(groups, out // groups, -1, *weight.shape[2:])
    total = np.zeros((x.shape[0], groups, out // groups, *sizes), x.dtype)
    for tap in np.ndindex(*weight.shape[2:]):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, sizes, stride, strict=True)
        )
        part = split[(slice(None),) * 3 + at]
        total += np.einsum("ngc...,goc->ngo...", part, rows[(slice(None),) * 3 + tap])
    total = total.reshape(x.shape[0], out, *sizes)
    return total if bias is None else total + bias.reshape(-1, *(1,) * spatial)


def conv_samples(spatial: int) -> Any:
    settings = [(1, 0, 1, 1), (2, 1, 1, 2), (1, 3, 2, 1), (3, 2, 1, 1)]

    def build(rng: Rng) -> list[Sample]:
        found = []
        kernel, space = (2, 3, 2)[:spatial], (5, 7, 4)[:spatial]
        for stride, padding, dilation, groups in settings[: 5 - spatial]:
            attrs = {"stride": (stride,) * spatial, "padding": (padding,) * spatial}
            attrs |= {"dilation": (dilation,) * spatial, "groups": groups}
            x = array(rng, 2, 4, *space)
            weight = array(rng, 2 * groups, 4 // groups, *kernel)
            bias = None if groups == 2 else array(rng, 2 * groups)
            found.append(Sample((x, weight, bias), attrs))
        depthwise_attrs = {"stride": (2,) * spatial, "padding": (1,) * spatial}
        depthwise_attrs |= {"dilation": (1,) * spatial, "groups": 4}
        operands = (array(rng, 2, 4, *space), array(rng, 4, 1, *kernel), array(rng, 4))
        return [*found, Sample(operands, depthwise_attrs)]

    return build


def _conv(spatial: int) -> OpDef:
    one, none = (1,) * spatial, (0,) * spatial
    wrong = {"stride": one, "padding": none, "dilation": one, "groups": 1}
    x, space = np.ones((1, 3, *(4,) * spatial)), (2,) * spatial
    return composite(
        f"conv{spatial}d",
        f"Products of weight with every window of a batch of {spatial}-D images, plus bias.",
        (
            Arg("input"),
            Arg("weight"),
            Arg("bias", optional=True),
            Attr("stride", one),
            Attr("padding", none),
            Attr("dilation", one),
            Attr("groups", 1),
            Attr("sliding", False),
        ),
        conv_decompose,
        conv_reference,
        conv_grad,
        shape=conv_shape,
        dtype=common_dtype,
        compute_f32=False,
        check=check_conv,
        samples=conv_samples(spatial),
        error_samples=(
            ErrorSample(
                (x, np.ones((2, 2, *space)), None), wrong, RuntimeError, "channels instead"
            ),
            ErrorSample((x[0], np.ones((2, 3, *space)), None), wrong, RuntimeError, "batched"),
            ErrorSample(
                (x, np.ones((2, 3, *(5,) * spatial)), None), wrong, RuntimeError, "can't be greater"
            ),
        ),
    )


conv1d, conv2d, conv3d = map(_conv, (1, 2, 3))
