"""torch.signal.windows: symmetric windows, or periodic ones (sym=False) of one element more.

In: the number of elements. Out: a vector; nothing is differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)


def _places(name: str, M: int, sym: bool, options: dict) -> tuple[Any, int]:  # noqa: N803
    """0, 1, ... M - 1 and the last place of the symmetric window."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    dtype = options.get("dtype") or torch.get_default_dtype()
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    layout = options.get("layout") or torch.strided
    if layout is not torch.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    wide = torch.arange(M, dtype=torch.float64, device=options.get("device"))
    return wide, max(M - 1 if sym else M, 1)


def _finish(values: Any, options: dict) -> Any:
    dtype = options.get("dtype") or torch.get_default_dtype()
    result = values.to(dtype)
    return result.requires_grad_() if options.get("requires_grad") else result


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    **options: Any,  # noqa: N803
) -> Any:
    """exp(-|n - center| / tau)."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    n, last = _places("exponential", M, sym, options)
    if M == 1:
        return _finish(n + 1, options)
    return _finish((-(n - (last / 2 if center is None else center)).abs() / tau).exp(), options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Any:  # noqa: N803
    """A half period of the sine."""
    n, _ = _places("cosine", M, sym, options)
    if M == 1:
        return _finish(n + 1, options)
    return _finish(((n + 0.5) * (math.pi / ((M if sym else M + 1) or 1))).sin(), options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Any:  # noqa: N803
    """exp(-((n - center) / std)^2 / 2)."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    n, last = _places("gaussian", M, sym, options)
    if M == 1:
        return _finish(n + 1, options)
    return _finish((-(((n - last / 2) / std) ** 2) / 2).exp(), options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Any:  # noqa: N803
    """I0(beta sqrt(1 - x^2)) / I0(beta)."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    n, last = _places("kaiser", M, sym, options)
    if M == 1:
        return _finish(n + 1, options)
    x = n * (2.0 / last) - 1
    top = torch.i0(n.new_tensor(float(beta)))
    return _finish(torch.i0((1 - x * x).clamp(min=0).sqrt() * beta) / top, options)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Any:  # noqa: N803
    """Sum of (-1)^i a_i cos(2 pi i n / last)."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    n, last = _places("general_cosine", M, sym, options)
    if M == 1:
        return _finish(n + 1, options)
    total = n * 0
    for i, weight in enumerate(weights):
        total = total + (n * (2 * math.pi * i / last)).cos() * (weight * (-1) ** i)
    return _finish(total, options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Any:  # noqa: N803
    """alpha - (1 - alpha) cos(2 pi n / last)."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Any:  # noqa: N803
    """general_hamming with alpha 0.54."""
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Any:  # noqa: N803
    """general_hamming with alpha 0.5."""
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Any:  # noqa: N803
    """Three cosine terms."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Any:  # noqa: N803
    """A triangle."""
    n, last = _places("bartlett", M, sym, options)
    if M == 1:
        return _finish(n + 1, options)
    return _finish(1 - (n * (2.0 / last) - 1).abs(), options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Any:  # noqa: N803
    """Four cosine terms."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip
