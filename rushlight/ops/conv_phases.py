"""The way back through a strided convolution, without the zeros that a stride leaves between.

With stride s every element s*q + r of the (padded) input meets the taps r, r + s, ... alone:

    dx[s*q + r] = sum over j of g[q - j] * w[r + s*j]

so each of the s phases (s * s in a picture) is a small convolution of g with a part of the kernel,
and the phases are put side by side again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as combinations
from typing import Any

from rushlight.ops.build import expand_to
from rushlight.ops.movement import cat, reshape, slice_
from rushlight.ops.rules import const, is_static
from rushlight.ops.window import pad_space

Correlate = Callable[[Any, Any], Any]


def suits_phases(sizes: Sequence[Any], stride: Sequence[Any], dilation: Sequence[Any]) -> bool:
    """A stride somewhere, sizes that are numbers, and taps side by side."""
    known = all(map(is_static, (*sizes, *stride)))
    return known and any(s > 1 for s in stride) and all(d == 1 for d in dilation)


def phases_back(
    g: Any,
    weight: Any,
    shape: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    correlate: Correlate,
) -> Any:
    """The gradient of an input of `shape`. correlate(g with zeros around it, taps of the weight):
    the way back through a convolution with stride 1 and these taps."""
    counts = [-(-(n + 2 * p) // s) for n, p, s in zip(shape[2:], padding, stride, strict=True)]
    found = {
        phase: _phase(g, weight, phase, stride, (*shape[:2], *counts), correlate)
        for phase in combinations(*map(range, stride))
    }
    joined = _side_by_side(found, (), stride)
    wide = [n * s for n, s in zip(counts, stride, strict=True)]
    flat = reshape(joined, (*shape[:2], *wide))
    return slice_(flat, (0, 0, *padding), tuple(shape), (1,) * flat.ndim)


def _phase(
    g: Any, weight: Any, phase: tuple[int, ...], stride: Any, shape: tuple, correlate: Correlate
) -> Any:
    """The gradient at the elements of one phase, of `shape`."""
    kernel, counts = weight.shape[2:], shape[2:]
    taps = [len(range(r, k, s)) for r, k, s in zip(phase, kernel, stride, strict=True)]
    if 0 in taps:  # between the windows
        return expand_to(const(0, g.dtype), (), shape)
    part = slice_(weight, (0, 0, *phase), (*weight.shape[:2], *taps), (1, 1, *stride))
    low = [t - 1 for t in taps]
    high = [m - n for m, n in zip(counts, g.shape[2:], strict=True)]
    return correlate(pad_space(g, low, high, 0), part)


def _side_by_side(found: dict, done: tuple[int, ...], stride: Sequence[int]) -> Any:
    """Phases of [N, C, count, ...] -> [N, C, count, stride, ...], from the last dimension on."""
    if done in found:
        return found[done]
    dim = len(done)
    parts = [_side_by_side(found, (*done, r), stride) for r in range(stride[dim])]
    at = 2 + dim + 1
    return cat([reshape(p, (*p.shape[:at], 1, *p.shape[at:])) for p in parts], dim=at)
