"""The arithmetic of an AttentionGrid on whole arrays, exactly as [attention] of tile/ir says.

In: operands and scores with the batch flattened in front, the key range of every query. Out: the
output and the lse. All groups and batch elements that see a block of keys are done together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.backends.interp.fma import fma
from rushlight.compiler.tile.ir import KEY_BLOCK, QUERY_GROUP

Function = Callable[[np.ndarray], np.ndarray]


def products(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """[batch, l, e] x [batch, s, e] -> [batch, l, s]: one chain over ascending e."""
    acc = np.zeros((len(q), q.shape[1], k.shape[1]), q.dtype)
    for i in range(q.shape[2]):
        acc = fma(q[:, :, None, i], k[:, None, :, i], acc)
    return acc


def online_softmax(
    scores: np.ndarray, v: np.ndarray, first: np.ndarray, stop: np.ndarray, exp: Function
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(output [batch, l, ev], top, total [batch, l]). first, stop: the keys each query may see."""
    batch, length, keys = scores.shape
    sums = np.zeros((batch, length, v.shape[2]), v.dtype)
    top = np.full((batch, length), -np.inf, v.dtype)
    total = np.zeros_like(top)
    for start in range(0, length, QUERY_GROUP):
        here = slice(start, min(start + QUERY_GROUP, length))
        low, high = max(0, int(first[here.start])), min(keys, int(stop[here.stop - 1]))
        for block in range(low // KEY_BLOCK * KEY_BLOCK, high, KEY_BLOCK):
            seen = slice(max(block, low), min(block + KEY_BLOCK, high))
            state = (sums[:, here], top[:, here], total[:, here])
            state = _step(*state, scores[:, here, seen], v[:, seen], exp)
            sums[:, here], top[:, here], total[:, here] = state
    one = v.dtype.type(1)
    return sums * (one / np.where(total == 0, one, total))[..., None], top, total


def _step(
    sums: np.ndarray, top: np.ndarray, total: np.ndarray, x: np.ndarray, v: np.ndarray,
    exp: Function,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """One block of keys for one group of queries."""
    new = np.fmax(top, np.fmax.reduce(x, axis=2, initial=-np.inf))
    ref = np.where(new == -np.inf, new.dtype.type(0), new)
    shrink, p = exp(top - ref), exp(x - ref[..., None])
    total = total * shrink
    sums = sums * shrink[..., None]
    for i in range(x.shape[2]):
        total = total + p[..., i]
        sums = fma(p[..., i, None], v[:, None, i], sums)
    return sums, new, total
