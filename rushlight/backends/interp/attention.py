"""The arithmetic of an AttentionGrid on whole arrays, exactly as [attention] of tile/ir says.

In: accs and scores with the batch flattened in front; -inf (scores) or 0 (weights) where a pair is
not kept. Out: sums, and the state of the softmax. All batch elements and rows are done together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.backends.interp.fma import fma
from rushlight.compiler.tile.ir import KEY_BLOCK

Function = Callable[[np.ndarray], np.ndarray]


def products(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """[batch, l, e] x [batch, s, e] -> [batch, l, s]: one chain over ascending e."""
    acc = np.zeros((len(q), q.shape[1], k.shape[1]), q.dtype)
    for i in range(q.shape[2]):
        acc = fma(q[:, :, None, i], k[:, None, :, i], acc)
    return acc


def weighted_sums(
    weights: np.ndarray, kept: np.ndarray, other: np.ndarray | None, start: np.ndarray | None = None
) -> np.ndarray:
    """[batch, l, s] x [batch, s, n] -> [batch, l, n], or [batch, l] without `other`: one chain over
    the ascending s that are kept, from `start` or 0."""
    shape = weights.shape[:2] if other is None else (*weights.shape[:2], other.shape[2])
    total = np.zeros(shape, weights.dtype) if start is None else start
    for i in range(weights.shape[2]):
        if other is None:
            total = np.where(kept[:, :, i], total + weights[:, :, i], total)
        else:
            added = fma(weights[:, :, i, None], other[:, None, i], total)
            total = np.where(kept[:, :, i, None], added, total)
    return total


def binned(weights: np.ndarray, bins: np.ndarray, count: int) -> np.ndarray:
    """[batch, l, s] x [batch, l, s] -> [batch, count]."""
    total = np.zeros((len(weights), count), weights.dtype)
    adds = (weights != 0) & (bins >= 0) & (bins < count)
    length, keys = weights.shape[1:]
    for row in range(0, length, KEY_BLOCK):
        for column in range(0, keys, KEY_BLOCK):
            here = (slice(None), slice(row, row + KEY_BLOCK), slice(column, column + KEY_BLOCK))
            at = np.nonzero(adds[here])  # ascending; add.at keeps the order
            np.add.at(total, (at[0], bins[here][at]), weights[here][at])
    return total


def online_softmax(
    scores: np.ndarray, kept: np.ndarray, values: list[np.ndarray], exp: Function
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """(results [batch, l, n] of each of values [batch, s, n], top, total [batch, l])."""
    batch, length, keys = scores.shape
    sums = [np.zeros((batch, length, v.shape[2]), v.dtype) for v in values]
    top = np.full((batch, length), -np.inf, scores.dtype)
    total = np.zeros_like(top)
    for block in range(0, keys, KEY_BLOCK):
        here = slice(block, min(block + KEY_BLOCK, keys))
        x, seen = scores[:, :, here], kept[:, :, here]
        new = np.fmax(top, np.fmax.reduce(x, axis=2, initial=-np.inf))
        ref = np.where(new == -np.inf, new.dtype.type(0), new)
        shrink, p = exp(top - ref), exp(x - ref[..., None])
        total = weighted_sums(p, seen, None, total * shrink)
        sums = [
            weighted_sums(p, seen, v[:, here], old * shrink[..., None])
            for v, old in zip(values, sums, strict=True)
        ]
        top = new
    one = scores.dtype.type(1)
    factor = (one / np.where(total == 0, one, total))[..., None]
    return [old * factor for old in sums], top, total
