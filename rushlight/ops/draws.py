"""Random numbers and dropout from random_bits: same seed and offset, same numbers.

Every draw takes the whole stream of its (seed, offset): the caller moves the offset on.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from rushlight.base.dtypes import DType, float32, float64, int64
from rushlight.ir.opdef import Arg, Attr, NotDifferentiable, Sizes, Value
from rushlight.ops.binary import add, bitwise_xor, ge, mul, remainder, shift_left, shift_right, sub
from rushlight.ops.build import like, to_dtype
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
from rushlight.ops.random import random_bits, random_bits_reference
from rushlight.ops.rules import dtype_attr, operand_shape
from rushlight.ops.samples import Sample, array
from rushlight.ops.select import where
from rushlight.ops.unary import cos, log, sqrt

# A second stream of the same seed: the key's low half turned over by a fixed odd word.
SECOND = 0x5851F42D4C957F2D
NO_GRADIENT = NotDifferentiable("random numbers do not depend on an operand")
STREAM = (Arg("seed"), Arg("offset"), Sizes("shape"), Attr("dtype", float32))


def unit_bits(seed: Any, offset: Any, shape: Any) -> Any:
    """float32 in [0, 1): multiples of 2**-24."""
    bits = shift_right(random_bits(seed, offset, shape), 8)
    return mul(to_dtype(bits, float32), 2.0**-24)


def uniform_decompose(seed: Any, offset: Any, shape: Any, dtype: DType = float32) -> Any:
    """[0, 1): 53 random bits for float64, 24 otherwise (the low bits of narrow floats cut off)."""
    if dtype is float64:
        high = to_dtype(shift_right(random_bits(seed, offset, shape), 5), float64)
        low = random_bits(bitwise_xor(seed, SECOND), offset, shape)
        low = to_dtype(shift_right(low, 6), float64)
        return mul(add(mul(high, 2.0**26), low), 2.0**-53)
    if dtype is float32:
        return unit_bits(seed, offset, shape)
    kept = 11 if dtype.name == "float16" else 8
    bits = shift_right(random_bits(seed, offset, shape), 32 - kept)
    return to_dtype(mul(to_dtype(bits, float32), 2.0**-kept), dtype)


def uniform_reference(seed: Any, offset: Any, shape: tuple, dtype: DType) -> np.ndarray:
    bits = random_bits_reference(seed, offset, shape).astype(np.float64)
    if dtype is float64:
        low = random_bits_reference(int(seed) ^ SECOND, offset, shape).astype(np.float64)
        return (np.floor(bits / 2**5) * 2**26 + np.floor(low / 2**6)) / 2**53
    kept = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype.name]
    return np.floor(bits / 2 ** (32 - kept)) / 2**kept


def stream_samples(*dtypes: DType) -> Any:
    return lambda rng: [
        Sample((np.int64(7), np.int64(2)), {"shape": (3, 4), "dtype": d}) for d in dtypes
    ]


uniform = composite(
    "uniform",
    "Random numbers, even in [0, 1).",
    STREAM,
    uniform_decompose,
    uniform_reference,
    NO_GRADIENT,
    shape=lambda call: call["shape"],
    dtype=dtype_attr,
    compute_f32=False,
    samples=stream_samples(float32, float64),
)


def normal_decompose(seed: Any, offset: Any, shape: Any, dtype: DType = float32) -> Any:
    """Box and Muller's method: one of the pair, so that elements stay independent of the shape."""
    wide = float64 if dtype is float64 else float32
    first = uniform_decompose(seed, offset, shape, wide)
    other = bitwise_xor(seed, -SECOND)
    second = uniform_decompose(other, offset, shape, wide)
    radius = sqrt(mul(log(sub(1.0, first)), -2.0))
    return to_dtype(mul(radius, cos(mul(second, 2 * pi))), dtype)


def normal_reference(seed: Any, offset: Any, shape: tuple, dtype: DType) -> np.ndarray:
    wide = float64 if dtype is float64 else float32
    first = uniform_reference(seed, offset, shape, wide)
    second = uniform_reference(int(seed) ^ -SECOND, offset, shape, wide)
    return np.sqrt(-2 * np.log(1 - first)) * np.cos(2 * pi * second)


normal = composite(
    "normal",
    "Random numbers, normal with mean 0 and variance 1.",
    STREAM,
    normal_decompose,
    normal_reference,
    NO_GRADIENT,
    shape=lambda call: call["shape"],
    dtype=dtype_attr,
    compute_f32=False,
    samples=stream_samples(float32, float64),
    tolerance={"float32": 1e-4},
)


def random_integers_decompose(seed: Any, offset: Any, low: Any, high: Any, shape: Any) -> Any:
    """62 random bits modulo the range (which must be far smaller) from low."""
    top = to_dtype(shift_right(random_bits(seed, offset, shape), 1), int64)
    bottom = random_bits(bitwise_xor(seed, SECOND), offset, shape)
    bottom = to_dtype(shift_right(bottom, 1), int64)
    return add(remainder(add(shift_left(top, 31), bottom), sub(high, low)), low)


def random_integers_reference(
    seed: Any, offset: Any, low: Any, high: Any, shape: tuple
) -> np.ndarray:
    top = random_bits_reference(seed, offset, shape).astype(np.int64) >> 1
    bottom = random_bits_reference(int(seed) ^ SECOND, offset, shape).astype(np.int64) >> 1
    return ((top << 31) + bottom) % (high - low) + low


random_integers = composite(
    "random_integers",
    "Random int64 in [low, high).",
    (Arg("seed"), Arg("offset"), Arg("low"), Arg("high"), Sizes("shape")),
    random_integers_decompose,
    random_integers_reference,
    NO_GRADIENT,
    shape=lambda call: call["shape"],
    dtype=lambda call: int64,
    samples=lambda rng: [
        Sample((np.int64(7), np.int64(2), np.int64(-3), np.int64(9)), {"shape": (20,)})
    ],
)


def dropout_decompose(x: Any, p: Any, seed: Any, offset: Any) -> Any:
    """Keep where a random number is not below p, over the chance to be kept."""
    kept = ge(unit_bits(seed, offset, x.shape), like(p, float32))
    return where(kept, x / (1.0 - like(p, x.dtype)), 0.0)


def dropout_grad(g: Any, p: Any, seed: Any, offset: Any, meta: Meta) -> tuple:
    """The same draw again: no mask is saved."""
    return (dropout(g, p, seed, offset),)


def dropout_reference(x: np.ndarray, p: float, seed: Any, offset: Any) -> np.ndarray:
    kept = uniform_reference(seed, offset, x.shape, float32) >= np.float32(p)
    return np.where(kept, x / (1 - p), 0)


dropout = composite(
    "dropout",
    "Each element is 0 with chance p, else divided by 1 - p.",
    (Arg("x"), Value("p"), Arg("seed"), Arg("offset")),
    dropout_decompose,
    dropout_reference,
    dropout_grad,
    shape=operand_shape,
    dtype=lambda call: call["x"].dtype,
    samples=lambda rng: [
        Sample((array(rng, 4, 5), p, np.int64(3), np.int64(9))) for p in (0.3, 0.0)
    ],
)
