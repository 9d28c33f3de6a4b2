"""What the bodies of math functions share: float formats, polynomials, sign tricks, clamps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rushlight.base.dtypes import DType, float32, float64, int32, int64
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E

INF = float("inf")
NAN = float("nan")


@dataclass(frozen=True)
class Format:
    """The layout of a binary float and limits of its exponential."""

    dtype: DType
    int_dtype: DType
    mantissa: int  # explicit mantissa bits
    bias: int
    exp_low: float  # exp(exp_low) rounds to 0
    exp_high: float  # exp(exp_high) overflows

    @property
    def sign_bit(self) -> int:
        return -(1 << (8 * self.dtype.itemsize - 1))

    @property
    def min_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def magic(self) -> float:
        """1.5 * 2**mantissa: adding it leaves the rounded integer in the low mantissa bits."""
        return 1.5 * 2.0**self.mantissa


F32 = Format(float32, int32, 23, 127, -104.0, 89.0)
F64 = Format(float64, int64, 52, 1023, -746.0, 710.0)


def format_of(x: E) -> Format:
    """The Format of an expression's dtype; TypeError for what is no float32 or float64."""
    if x.dtype is float32:
        return F32
    if x.dtype is float64:
        return F64
    raise TypeError(f"math functions take float32 or float64, not {x.dtype.name}: cast first")


def horner(x: E, coefficients: Sequence[float]) -> E:
    """sum c[k] x**k, low order first, one fma per step."""
    result = s.const(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        result = s.fma(result, x, s.const(c, x.dtype))
    return result


def at_most(x: E, high: float) -> E:
    """min(x, high), NaN stays."""
    return s.select(s.gt(x, high), s.const(high, x.dtype), x)


def at_least(x: E, low: float) -> E:
    return s.select(s.lt(x, low), s.const(low, x.dtype), x)


def copy_sign(magnitude: E, sign: E) -> E:
    """A magnitude without sign bit gets the sign bit of `sign`."""
    fmt = format_of(sign)
    bits = s.bitcast(sign, fmt.int_dtype) & fmt.sign_bit
    return s.bitcast(s.bitcast(magnitude, fmt.int_dtype) | bits, fmt.dtype)


def flip_sign(x: E, bits: E) -> E:
    """x with its sign bit xor-ed with that of an integer."""
    fmt = format_of(x)
    return s.bitcast(s.bitcast(x, fmt.int_dtype) ^ bits, fmt.dtype)


def exact_at_zero(x: E, result: E) -> E:
    """Odd functions give x itself at +-0.0, where the sums above lose the sign."""
    return s.select(s.eq(x, 0.0), x, result)


def through_float64(body: Callable[..., E]) -> Callable[..., E]:
    """A body written for float64 serves float32 too: computed wide, rounded once."""

    def wrapped(*args: E) -> E:
        if format_of(args[0]) is F64:
            return body(*args)
        return s.cast(body(*(s.cast(a, float64) for a in args)), float32)

    wrapped.__name__, wrapped.__doc__ = body.__name__, body.__doc__
    return wrapped
