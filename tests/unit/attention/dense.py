"""Attention of full score matrices in float64, and its gradients: what flex_attention must give."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Dense:
    """The answers."""

    out: np.ndarray
    lse: np.ndarray
    top: np.ndarray
    d_query: np.ndarray
    d_key: np.ndarray
    d_value: np.ndarray
    d_scores: np.ndarray
    # The sum of the magnitudes of the terms of d_scores, which may cancel each other.
    d_scores_terms: np.ndarray


def dense_attention(q, k, v, bias, mask, d_out, d_lse, scale, cap=None):
    """Everything of softmax(q k scale + bias where mask) v; rows without keys give 0 and -inf.

    cap: scores are cap * tanh(score / cap), without a bias.
    """
    group = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores, slope = q @ np.swapaxes(keys, -1, -2) * scale + bias, 1.0
    if cap is not None:
        scores = cap * np.tanh(scores / cap)
        slope = 1 - (scores / cap) ** 2
    scores = np.where(mask, scores, -np.inf)
    with np.errstate(all="ignore"):
        top = scores.max(-1, keepdims=True, initial=-np.inf)
        base = np.where(np.isinf(top), 0, top)
        e = np.exp(scores - base)
        total = e.sum(-1, keepdims=True)
        p = np.where(total == 0, 0, e / np.where(total == 0, 1, total))
        lse = (base + np.log(total))[..., 0]
    out = p @ values
    d_lse = np.where(np.isinf(lse), 0, d_lse)[..., None]
    d_scores = p * (d_out @ np.swapaxes(values, -1, -2) - (d_out * out).sum(-1, keepdims=True))
    d_scores = (d_scores + p * d_lse) * slope
    terms = p * (
        abs(d_out) @ np.swapaxes(abs(values), -1, -2) + abs(d_out * out).sum(-1, keepdims=True)
    )

    def of_groups(x):
        return x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2)

    return Dense(
        out, lse, top[..., 0], d_scores @ keys * scale,
        of_groups(np.swapaxes(d_scores, -1, -2) @ q * scale),
        of_groups(np.swapaxes(p, -1, -2) @ d_out), d_scores, terms,
    )  # fmt: skip
