"""torch.hann_window and the other windows: vectors made from a length.

`periodic` windows are symmetric ones of one element more, without the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.base.dtypes import DType, float64
from rushlight.tensors.creation import arange, default_dtype, ones
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

Options = Any  # dtype, layout, device, pin_memory, requires_grad


def _window(
    name: str, length: int, periodic: bool, formula: Callable[[Any, int], Any],
    dtype: DType | None = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`formula` of the places 0, 1, ... and the last place."""
    wanted = default_dtype() if dtype is None else dtype
    if not wanted.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: torch.{wanted.name}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got {length}")
    methods: Any = Tensor
    if length < 2:
        found = ones(length, dtype=wanted, device=device)
    else:
        places: Any = arange(length, dtype=float64, device=device)
        last = length if periodic else length - 1
        found = methods.to(formula(places, last), wanted)
    return found.requires_grad_() if requires_grad else found


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46,
    **options: Options,
) -> Tensor:  # fmt: skip
    """alpha - beta cos(2 pi n / N)."""
    return _window("hamming_window", window_length, periodic,
                   lambda n, last: alpha - beta * (n * (2 * math.pi / last)).cos(),
                   **options)  # fmt: skip


def hann_window(window_length: int, periodic: bool = True, **options: Options) -> Tensor:
    """sin(pi n / N) squared.

    >>> import rushlight as torch
    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann_window", window_length, periodic,
                   lambda n, last: 0.5 - 0.5 * (n * (2 * math.pi / last)).cos(),
                   **options)  # fmt: skip


def blackman_window(window_length: int, periodic: bool = True, **options: Options) -> Tensor:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)."""

    def formula(n: Any, last: int) -> Any:
        turn = n * (2 * math.pi / last)
        return (0.42 - 0.5 * turn.cos() + 0.08 * (2 * turn).cos()).clamp(min=0)

    return _window("blackman_window", window_length, periodic, formula, **options)


def bartlett_window(window_length: int, periodic: bool = True, **options: Options) -> Tensor:
    """A triangle."""
    return _window("bartlett_window", window_length, periodic,
                   lambda n, last: 1 - (n * (2 / last) - 1).abs(), **options)  # fmt: skip


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **options: Options
) -> Tensor:
    """I0(beta sqrt(1 - (2 n / N - 1)^2)) / I0(beta)."""

    def formula(n: Any, last: int) -> Any:
        inside = (1 - (n * (2 / last) - 1).square()).clamp(min=0).sqrt() * beta
        return inside.i0() / (n.new_ones(()) * beta).i0()

    return _window("kaiser_window", window_length, periodic, formula, **options)


FUNCTIONS: dict[str, Callable[..., Any]] = by_name(
    hamming_window, hann_window, blackman_window, bartlett_window, kaiser_window
)
METHODS: dict[str, Callable[..., Any]] = {}
