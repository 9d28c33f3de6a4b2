"""Numpy meanings that numpy lacks. Arrays come in as they are; bfloat16 was widened before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def elementwise(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """A Python float function over an array, in double precision."""
    vector = np.vectorize(function, otypes=[np.float64])

    def apply(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)
        return vector(x.astype(np.float64)).astype(x.dtype) if x.size else x.copy()

    return apply


def factor(value: Any, x: np.ndarray) -> Any:
    """A number that multiplies whole numbers is a whole number, as in PyTorch: 0.5 becomes 0."""
    return value if np.asarray(x).dtype.kind not in "iu" else np.asarray(value).astype(x.dtype)


def _digamma(x: float) -> float:
    if math.isnan(x) or x == -math.inf:
        return math.nan
    if x <= 0 and x == math.floor(x):
        return math.copysign(math.inf, -x) if x == 0 else math.nan
    if x < 0:
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    shift = 0.0
    while x < 12:
        shift -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    return shift + math.log(x) - 0.5 / x - series


def _trigamma(x: float) -> float:
    if x < 0.5:
        return (math.pi / math.sin(math.pi * x)) ** 2 - _trigamma(1 - x)
    total = 0.0
    while x < 20:
        total += 1 / (x * x)
        x += 1
    y = 1 / (x * x)
    return total + 1 / x + y / 2 + y / x * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y / 30)))


def _erfinv(y: float) -> float:
    if math.isnan(y) or abs(y) > 1:
        return math.nan
    if abs(y) == 1:
        return math.copysign(math.inf, y)
    w = math.log(1 - y * y)
    a = 2 / (math.pi * 0.147) + w / 2
    x = math.copysign(math.sqrt(math.sqrt(a * a - w / 0.147) - a), y)
    for _ in range(4):
        x -= (math.erf(x) - y) / (2 / math.sqrt(math.pi) * math.exp(-x * x))
    return x


def _lgamma(x: float) -> float:
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


erf, erfc = elementwise(math.erf), elementwise(math.erfc)
lgamma, digamma, trigamma = map(elementwise, (_lgamma, _digamma, _trigamma))
erfinv = elementwise(_erfinv)


def sign(x: np.ndarray) -> np.ndarray:
    if x.dtype == bool:
        return x
    return np.where(np.isnan(x), 0, np.sign(x)).astype(x.dtype)


def sigmoid(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    return (0.5 * (1 + np.tanh(0.5 * x))).astype(x.dtype)


def whole(function: Callable) -> Callable[[np.ndarray], np.ndarray]:
    """A rounding function that leaves whole numbers and bools alone."""
    return lambda x: function(x) if x.dtype.kind == "f" else x


def _any_float(*arrays: np.ndarray) -> bool:
    return any(np.asarray(a).dtype.kind in "fc" for a in arrays)


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.remainder(x, y)


def int_power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Integer powers wrap; a negative exponent gives 1/x toward zero."""
    if _any_float(x, y):
        return np.power(x, y)
    positive = np.power(x, np.maximum(y, 0))
    flip = np.where(y % 2 == 0, 1, -1).astype(x.dtype)
    negative = np.where(x == 1, 1, np.where(x == -1, flip, 0))
    return np.where(y < 0, negative, positive).astype(x.dtype)


def softmax(x: np.ndarray, dim: int) -> np.ndarray:
    if x.ndim == 0:
        return np.ones_like(x)
    if x.size == 0:
        return x.copy()
    e = np.exp(x - np.max(x, axis=dim, keepdims=True))
    return e / np.sum(e, axis=dim, keepdims=True)


def logsumexp(x: np.ndarray, axis: Any, keepdims: bool = False) -> np.ndarray:
    top = np.max(np.real(x), axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis)


def log_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    if x.ndim == 0:
        return np.zeros_like(x)
    return x if x.size == 0 else x - logsumexp(x, dim, True)


def axes(dim: Any) -> Any:
    """numpy's axis for a `dim` attribute: None or () is all."""
    return None if dim is None or dim == () else dim
