"""Tensors of random numbers for tests."""

from __future__ import annotations

from typing import Any

import rushlight as torch


def make_tensor(
    *shape: Any, dtype: torch.dtype, device: Any = None, low: float | None = None,
    high: float | None = None, requires_grad: bool = False, noncontiguous: bool = False,
    exclude_zero: bool = False, memory_format: Any = None,
) -> torch.Tensor:  # fmt: skip
    """A tensor of numbers from low (inclusive) to high (exclusive; floats may be `low` alone).

    Without limits: -9 to 9 for floating point and complex, -9 to 9 (10 without sign) for whole
    numbers, both for bool. exclude_zero: the smallest positive number in place of 0. Raises
    ValueError for limits without a number between, whole numbers with a gradient, and
    `noncontiguous` with a `memory_format` (which changes nothing: memory is row by row).

    >>> make_tensor((2, 3), dtype=torch.int64, low=1, high=2)
    tensor([[1, 1, 1],
            [1, 1, 1]])
    """
    given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    size = list(given)
    if noncontiguous and size:
        size[-1] *= 2
    is_inexact = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not is_inexact:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"{dtype=}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    if low is not None and high is not None and (low > high or low == high and not is_inexact):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    made = _numbers(size, dtype, low, high)
    if exclude_zero:
        one = torch.finfo(dtype).tiny if dtype.is_floating_point else 1
        made = torch.where(made == 0, torch.tensor(one, dtype=dtype), made)
    if noncontiguous and size:
        made = made[..., ::2]
    made = made.to(device) if device is not None else made
    return made.detach().requires_grad_(requires_grad)


def _numbers(size: list[int], dtype: torch.dtype, low: Any, high: Any) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.randint(0, 2, size).to(torch.bool)
    if dtype.is_complex:
        part = torch.float64 if dtype is torch.complex128 else torch.float32
        return torch.complex(_numbers(size, part, low, high), _numbers(size, part, low, high))
    if dtype.is_floating_point:
        start, end = -9.0 if low is None else low, 9.0 if high is None else high
        return (torch.rand(size) * (end - start) + start).clamp(max=end).to(dtype)
    start = (0 if dtype is torch.uint8 else -9) if low is None else int(low)
    return torch.randint(start, 10 if high is None else int(high), size).to(dtype)


__all__ = ["make_tensor"]
