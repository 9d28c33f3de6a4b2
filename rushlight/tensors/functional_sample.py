"""nn.functional: sampling at real places (grid_sample), unpooling, pooling to a given size.

Everything is composed of gathers and scatters, so gradients reach the image and the places.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import int64
from rushlight.tensors.apply import apply
from rushlight.tensors.autocast_rules import follow_all
from rushlight.tensors.creation import arange, linspace, zeros
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functional_image import (
    batched,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    output_size_of,
    per_dim,
    unbatched,
)
from rushlight.tensors.functional_resize import cubic_weights
from rushlight.tensors.functions_linalg import matmul
from rushlight.tensors.functions_shape import stack
from rushlight.tensors.functions_view import expand, reshape, unsqueeze
from rushlight.tensors.tensor import Tensor


def _where(mask: Tensor, x: Any, y: Any) -> Tensor:
    return apply(ops.where, (mask, x, y))


def _floor(x: Tensor) -> Tensor:
    return apply(ops.floor, (x,))


# Sampling at a grid ------------------------------------------------------------------------


def _unnormalized(x: Tensor, size: int, corners: bool) -> Tensor:
    return (x + 1) * ((size - 1) / 2) if corners else ((x + 1) * size - 1) / 2


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Reflected at low and high until inside."""
    if low == high:
        return x * 0
    span = high - low
    off = apply(ops.abs_, (x - low,))
    turns = _floor(off / span)
    rest = off - turns * span
    even = apply(ops.remainder, (turns.detach(), 2.0)) == 0
    return _where(even, rest + low, span - rest + low)


def _held(x: Tensor, size: int, padding: str, corners: bool) -> Tensor:
    if padding == "border":
        return x.clamp(0, size - 1)
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        return _reflected(x, low, high).clamp(0, size - 1)
    return x


def _read(input: Tensor, places: Sequence[Tensor]) -> Tensor:
    """input[n, :, places], 0 where a place is outside. places: whole floats, [N, *out]."""
    sizes = input._shape[2:]
    inside = None
    flat: Any = 0
    for place, size in zip(places, sizes, strict=True):
        there = (place >= 0) & (place <= size - 1)
        inside = there if inside is None else inside & there
        flat = flat * size + place.detach().clamp(0, max(size - 1, 0)).to(int64)
    n, c = input._shape[:2]
    out = flat._shape[1:]
    lines = reshape(input, (n, c, math.prod(sizes)))
    index = expand(reshape(flat, (n, 1, -1)), (n, c, math.prod(out)))
    values = reshape(apply(ops.gather, (lines, 2, index)), (n, c, *out))
    assert inside is not None
    return _where(unsqueeze(inside, 1), values, 0.0)


MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _check_grid(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    spatial = input.dim() - 2
    if mode not in MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if spatial not in (2, 3) or grid.dim() != input.dim() or grid._shape[-1] != spatial:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {spatial} in last dimension, but got "
            f"grid with sizes {list(grid._shape)} for input with sizes {list(input._shape)}"
        )
    if input._shape[0] != grid._shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {list(input._shape)} and grid with sizes {list(grid._shape)}"
        )
    if mode == "bicubic" and spatial != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """The image read at places: grid[..., 0] is x in [-1, 1], then y, then z."""
    _check_grid(input, grid, mode, padding_mode)
    spatial = input.dim() - 2
    corners = bool(align_corners)
    sizes = input._shape[2:]
    places = [_unnormalized(grid[..., spatial - 1 - i], sizes[i], corners) for i in range(spatial)]
    if mode == "bicubic":
        return _sample_cubic(input, places, padding_mode, corners)
    places = [_held(p, n, padding_mode, corners) for p, n in zip(places, sizes, strict=True)]
    if mode == "nearest":
        return _read(input, [apply(ops.round_, (p,)) for p in places])
    return _sample_linear(input, places)


def _sample_linear(input: Tensor, places: list[Tensor]) -> Tensor:
    lows = [_floor(p) for p in places]
    total = None
    for taps in itertools.product((0, 1), repeat=len(places)):
        weight: Any = 1.0
        for tap, place, low in zip(taps, places, lows, strict=True):
            part = place - low.detach()
            weight = weight * (part if tap else 1 - part)
        values = _read(input, [low.detach() + tap for tap, low in zip(taps, lows, strict=True)])
        term = values * unsqueeze(weight, 1)
        total = term if total is None else total + term
    assert total is not None
    return total


def _sample_cubic(input: Tensor, places: list[Tensor], padding: str, corners: bool) -> Tensor:
    lows = [_floor(p).detach() for p in places]
    weights = [cubic_weights(p - low) for p, low in zip(places, lows, strict=True)]
    sizes = input._shape[2:]
    total = None
    for i, j in itertools.product(range(4), repeat=2):
        at = [
            _held(low + (k - 1), n, padding, corners)
            for low, k, n in zip(lows, (i, j), sizes, strict=True)
        ]
        at = [apply(ops.round_, (p,)) for p in at] if padding == "reflection" else at
        term = _read(input, at) * unsqueeze(weights[0][i] * weights[1][j], 1)
        total = term if total is None else total + term
    assert total is not None
    return total


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """grid_sample with the modes as numbers."""
    return grid_sample(
        input, grid, MODES[interpolation_mode], PADDINGS[padding_mode], align_corners
    )


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The places of an output of this size under an affine map (N, 2, 3) or (N, 3, 4)."""
    space = list(size[2:])
    axes = []
    for n in space:
        line = linspace(-1, 1, n, dtype=theta._dtype) if n > 1 else zeros(n, dtype=theta._dtype)
        axes.append(line if align_corners else line * ((n - 1) / n))
    parts = []
    for i in reversed(range(len(space))):
        shape = [-1 if d == i else 1 for d in range(len(space))]
        parts.append(expand(reshape(axes[i], shape), space))
    parts.append(parts[0] * 0 + 1)
    base = reshape(stack(parts, -1), (1, -1, len(space) + 1))
    return reshape(matmul(base, theta.transpose(1, 2)), (size[0], *space, len(space)))


# Unpooling ---------------------------------------------------------------------------------


def _max_unpool(spatial: int) -> Callable:
    name = f"max_unpool{spatial}d"

    def function(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:  # fmt: skip
        batch, single = batched(input, spatial, name)
        at = unsqueeze(indices, 0) if single else indices
        if at._shape != batch._shape:
            raise RuntimeError(
                f"{name}: input and indices must have one shape, got {list(input._shape)} and "
                f"{list(indices._shape)}"
            )
        kernel = per_dim(kernel_size, spatial)
        step = per_dim(stride, spatial) if stride else kernel
        edges = per_dim(padding, spatial)
        if output_size is None:
            space = [(n - 1) * s - 2 * p + k for n, s, p, k in
                     zip(batch._shape[2:], step, edges, kernel, strict=True)]  # fmt: skip
        else:
            space = list(output_size)[-spatial:]
        n, c = batch._shape[:2]
        lines = zeros(n, c, math.prod(space), dtype=input._dtype)
        args = (lines, 2, reshape(at, (n, c, -1)), reshape(batch, (n, c, -1)))
        return unbatched(reshape(apply(ops.scatter, args), (n, c, *space)), single)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Put values back where max_pool{spatial}d took them from; 0 elsewhere."
    return function


max_unpool1d, max_unpool2d, max_unpool3d = map(_max_unpool, (1, 2, 3))


def _with_indices(pool: Callable, spatial: int) -> Callable:
    def function(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
                 dilation: Any = 1, ceil_mode: bool = False,
                 return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    function.__name__ = function.__qualname__ = f"max_pool{spatial}d_with_indices"
    function.__doc__ = "Values and flat positions of the largest elements."
    return function


max_pool1d_with_indices = _with_indices(max_pool1d, 1)
max_pool2d_with_indices = _with_indices(max_pool2d, 2)
max_pool3d_with_indices = _with_indices(max_pool3d, 3)


def _adaptive_max(spatial: int) -> Callable:
    name = f"adaptive_max_pool{spatial}d"

    def function(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        sizes = output_size_of(input, output_size, spatial)
        batch, single = batched(input, spatial, name)
        have = batch._shape[2:]
        values, at = batch, expand(reshape(arange(math.prod(have)), have), batch._shape)
        # The last axis first: of equal elements the first one in the order of memory is taken.
        for axis in reversed(range(spatial)):
            values, at = _adaptive_axis(values, at, axis + 2, sizes[axis], have[axis])
        values = unbatched(values, single)
        return (values, unbatched(at, single)) if return_indices else values

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "The largest element of each of output_size even parts."
    return function


def _adaptive_axis(x: Tensor, at: Tensor, dim: int, size: int, have: int) -> tuple[Tensor, Tensor]:
    """One dimension: every part as a row of places (the last one repeated), then its best."""
    starts = [i * have // max(size, 1) for i in range(size)]
    stops = [-(-(i + 1) * have // max(size, 1)) for i in range(size)]
    width = max((b - a for a, b in zip(starts, stops, strict=True)), default=1)
    rows = [[min(a + k, b - 1) for k in range(width)] for a, b in zip(starts, stops, strict=True)]
    place = tensor_of([p for row in rows for p in row], int64)
    shape = (*x._shape[:dim], size, width, *x._shape[dim + 1 :])
    wide = reshape(x.index_select(dim, place), shape)
    best = apply(ops.window_argmax, (wide.detach(), dim + 1, True))
    values = apply(ops.gather, (wide, dim + 1, best)).squeeze(dim + 1)
    flat = reshape(at.index_select(dim, place), shape)
    return values, apply(ops.gather, (flat, dim + 1, best)).squeeze(dim + 1)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(_adaptive_max, (1, 2, 3))
# Autocast casts their operands.
(adaptive_max_pool3d, grid_sample, max_unpool1d, max_unpool2d, max_unpool3d) = follow_all(
    adaptive_max_pool3d, grid_sample, max_unpool1d, max_unpool2d, max_unpool3d
)  # fmt: skip
__all__ = [
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid",
    "grid_sample", "max_pool1d_with_indices", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip
FUNCTIONS: dict[str, Callable] = {
    "grid_sampler": grid_sampler, "grid_sampler_2d": grid_sampler, "grid_sampler_3d": grid_sampler,
}  # fmt: skip
METHODS: dict[str, Callable] = {}
