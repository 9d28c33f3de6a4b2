"""Counter-based random bits: Philox4x32-10 by (seed, offset, element).

The numbers depend on nothing else: not on threads, layout or other random ops. The method is
"Parallel random numbers: as easy as 1, 2, 3" (Salmon et al., 2011); its known answers are tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import int64, uint32, uint64
from rushlight.ir import scalar as s
from rushlight.ir.opdef import Arg, NotDifferentiable, Sizes, op
from rushlight.ops.samples import Sample

MULTIPLY = (0xD2511F53, 0xCD9E8D57)
BUMP = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox_words(counter: tuple[Any, ...], key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The four words of one counter and key, on uint32 expressions."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _wide_multiply(c0, MULTIPLY[0])
        high1, low1 = _wide_multiply(c2, MULTIPLY[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + s.const(BUMP[0], uint32), k1 + s.const(BUMP[1], uint32)
    return c0, c1, c2, c3


def _wide_multiply(x: s.E, factor: int) -> tuple[s.E, s.E]:
    """The high and low halves of a 64-bit product."""
    product = s.mul(s.cast(x, uint64), s.const(factor, uint64))
    high = s.cast(s.shr(product, s.const(32, uint64)), uint32)
    return high, s.mul(x, s.const(factor, uint32))


def _halves(x: s.E) -> tuple[s.E, s.E]:
    bits = s.bitcast(x, uint64)
    return s.cast(bits, uint32), s.cast(s.shr(bits, s.const(32, uint64)), uint32)


def random_bits_scalar(seed: s.E, offset: s.E, index: s.E) -> s.E:
    """Word 0 for one element; all three are int64 expressions. What the compiler emits."""
    return philox_words((*_halves(offset), *_halves(index)), _halves(seed))[0]


def philox_reference(seed: int, offset: int, count: int) -> np.ndarray:
    """Word 0 of elements 0 .. count-1."""
    mask = np.uint64(0xFFFFFFFF)
    index = np.arange(count, dtype=np.uint64)
    low, high = _split(offset)
    c0, c1 = np.full(count, low, np.uint64), np.full(count, high, np.uint64)
    words = [c0, c1, index & mask, index >> np.uint64(32)]
    return _rounds(words, _split(seed))[0].astype(np.uint32)


def _split(value: int) -> tuple[int, int]:
    bits = int(value) & 0xFFFFFFFFFFFFFFFF
    return bits & 0xFFFFFFFF, bits >> 32


def _rounds(words: list[np.ndarray], key: tuple[int, int]) -> list[np.ndarray]:
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1, c2, c3 = words
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = c0 * np.uint64(MULTIPLY[0]), c2 * np.uint64(MULTIPLY[1])
        c0, c1, c2, c3 = (
            (p1 >> half) ^ c1 ^ np.uint64(k0),
            p1 & mask,
            (p0 >> half) ^ c3 ^ np.uint64(k1),
            p0 & mask,
        )
        k0, k1 = (k0 + BUMP[0]) & 0xFFFFFFFF, (k1 + BUMP[1]) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def random_bits_reference(seed: Any, offset: Any, shape: tuple[int, ...]) -> np.ndarray:
    return philox_reference(int(seed), int(offset), int(np.prod(shape))).reshape(shape)


def _check_seed(call: Any) -> None:
    for name in ("seed", "offset"):
        node = call[name]
        if node.shape != () or node.dtype is not int64:
            raise RuntimeError(f"random_bits: {name} must be a 0-dim int64, got {node!r}")


random_bits = op(
    name="random_bits",
    doc="32 random bits per element, by (seed, offset, position of the element).",
    inputs=(Arg("seed"), Arg("offset"), Sizes("shape")),
    shape=lambda call: call["shape"],
    dtype=lambda call: uint32,
    kind="random",
    reference=random_bits_reference,
    grad=NotDifferentiable("random bits do not depend on an operand"),
    check=_check_seed,
    samples=lambda rng: [
        Sample((np.int64(5), np.int64(3)), {"shape": (3, 4)}),
        Sample((np.int64(-1), np.int64(0)), {"shape": ()}),
    ],
)
