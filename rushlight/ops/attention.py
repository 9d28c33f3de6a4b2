"""Scaled dot product attention, over a primitive that never holds all scores (flash_attention:
online softmax over blocks of keys). The gradient keeps nothing but operands and output: the
probabilities are computed again.

Shape letters: L queries, S keys, E features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_
from rushlight.ir.opdef import Arg, Attr, Call, Value, op
from rushlight.ops.binary import add, eq, le
from rushlight.ops.build import iota_along, keep, like, swap_last
from rushlight.ops.composite import composite, in_float32
from rushlight.ops.meta import Meta
from rushlight.ops.products import batched_dot
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import Shape, broadcast_shapes, is_static
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, truth
from rushlight.ops.select import where
from rushlight.ops.unary import exp

MINUS = float("-inf")


def scores_of(query: Any, key: Any, mask: Any, is_causal: bool) -> Any:
    """query @ key^T, masked: -inf where a key must not be seen."""
    scores = batched_dot(query, swap_last(key, key.ndim))
    if is_causal:
        rows, columns = scores.shape[-2:]
        seen = le(iota_along(2, 1, columns), iota_along(2, 0, rows))
        scores = where(seen, scores, MINUS)
    if mask is None:
        return scores
    return where(mask, scores, MINUS) if mask.dtype is bool_ else add(scores, mask)


def probabilities(out: Any, query: Any, key: Any, mask: Any, is_causal: bool) -> Any:
    """softmax over keys, from the lse of every query; a row that sees no key gets zeros."""
    scores = scores_of(query, key, mask, is_causal)
    lse = flash_lse(out, query, key, mask, is_causal=is_causal)
    lse = keep(lse, scores.shape, (scores.ndim - 1,))
    return exp(scores - where(eq(lse, MINUS), 0.0, lse))


def attention_decompose(
    query: Any, key: Any, value: Any, mask: Any = None, is_causal: bool = False, scale: Any = 1.0
) -> Any:
    query = query * like(scale, query.dtype)
    return flash_attention(query, key, value, mask, is_causal=is_causal)


def attention_grad(
    g: Any, out: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: Any,
    meta: Meta,
) -> tuple:  # fmt: skip
    factor = like(scale, query.dtype)
    by_query, *others = flash_grad(g, out, query * factor, key, value, mask, is_causal, meta)
    return None if by_query is None else by_query * factor, *others


def flash_grad(
    g: Any, out: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, meta: Meta
) -> tuple:
    """Row sums of (dp * p) are row sums of (g * out): no second pass over the keys."""
    p = probabilities(out, query, key, mask, is_causal)
    by_p = batched_dot(g, swap_last(value, value.ndim))
    inner = keep(reduce_sum(g * out, (g.ndim - 1,)), g.shape, (g.ndim - 1,))
    by_scores = p * (by_p - inner)
    by_mask = by_query = by_key = by_value = None
    if meta.needs("query"):
        by_query = batched_dot(by_scores, key)
    if meta.needs("key"):
        by_key = batched_dot(swap_last(by_scores, by_scores.ndim), query)
    if meta.needs("value"):
        by_value = batched_dot(swap_last(p, p.ndim), g)
    if mask is not None and mask.dtype is not bool_ and meta.needs("mask"):
        by_mask = by_scores
    return by_query, by_key, by_value, by_mask


def lse_grad(
    g: Any, attended: Any, query: Any, key: Any, mask: Any, is_causal: bool, meta: Meta
) -> tuple:
    p = probabilities(attended, query, key, mask, is_causal)
    by_scores = p * keep(g, p.shape, (p.ndim - 1,))
    by_query = batched_dot(by_scores, key) if meta.needs("query") else None
    by_key = by_mask = None
    if meta.needs("key"):
        by_key = batched_dot(swap_last(by_scores, by_scores.ndim), query)
    if mask is not None and mask.dtype is not bool_ and meta.needs("mask"):
        by_mask = by_scores
    return None, by_query, by_key, by_mask


def attention_shape(call: Call) -> Shape:
    q, k, v = (call[name].shape for name in ("query", "key", "value"))
    return (*broadcast_shapes(q[:-2], k[:-2], v[:-2]), q[-2], v[-1])


def attention_dtype(call: Call) -> Any:
    for name in ("key", "value"):
        if call[name].dtype is not call["query"].dtype:
            raise RuntimeError(
                "Expected query, key, and value to have the same dtype, but got query.dtype: "
                f"{call['query'].dtype.name} key.dtype: {call['key'].dtype.name} and value.dtype: "
                f"{call['value'].dtype.name} instead."
            )
    return call["query"].dtype


def check_attention(call: Call) -> None:
    q, k, v = (call[name].shape for name in ("query", "key", "value"))
    if min(len(q), len(k), len(v)) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{len(q)}, key.dim: {len(k)} and value.dim: {len(v)} instead."
        )
    pairs = ((q[-1], k[-1], "query and key features"), (k[-2], v[-2], "key and value lengths"))
    for a, b, text in pairs:
        if a != b and is_static(a) and is_static(b):
            raise RuntimeError(f"scaled_dot_product_attention: {text} differ: {a} and {b}")
    mask = call["mask"]
    if mask is not None:
        scores = (*broadcast_shapes(q[:-2], k[:-2], v[:-2]), q[-2], k[-2])
        if broadcast_shapes(mask.shape, scores) != scores:
            raise RuntimeError(
                f"scaled_dot_product_attention: the mask's shape {list(mask.shape)} does not "
                f"broadcast to that of the scores, {list(scores)}"
            )
    if mask is not None and call["is_causal"]:
        raise RuntimeError("Explicit attn_mask should not be set when is_causal=True")


def masked_scores(
    query: np.ndarray, key: np.ndarray, mask: Any, scale: float, is_causal: bool
) -> np.ndarray:
    scores = np.matmul(query, np.swapaxes(key, -1, -2)) * scale
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return scores


def attention_reference(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: Any, scale: float,
    is_causal: bool,
) -> np.ndarray:  # fmt: skip
    scores = masked_scores(query, key, mask, scale, is_causal)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return np.matmul(e / np.where(total == 0, 1, total), value)


def attention_samples(rng: Rng) -> list[Sample]:
    def qkv(*lead: int) -> tuple:
        sizes = ((3, 4), (5, 4), (5, 2))
        return tuple(array(rng, *lead, *size) for size in sizes)

    seen = truth(rng, 3, 5)
    seen[0] = False
    return [
        Sample((*qkv(2), None, 0.5), {"is_causal": False}),
        Sample((*qkv(2, 2), None, 0.5), {"is_causal": True}),
        Sample((*qkv(2), array(rng, 2, 3, 5), 0.7), {"is_causal": False}),
        Sample((*qkv(2), array(rng, 3, 5), 0.7), {"is_causal": False}),
        Sample((*qkv(), seen, 0.5), {"is_causal": False}),
    ]


def flash_reference(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: Any = None, is_causal: bool = False
) -> np.ndarray:
    return attention_reference(query, key, value, mask, 1.0, is_causal)


def lse_reference(
    attended: np.ndarray, query: np.ndarray, key: np.ndarray, mask: Any = None,
    is_causal: bool = False,
) -> np.ndarray:  # fmt: skip
    scores = masked_scores(query, key, mask, 1.0, is_causal)
    with np.errstate(divide="ignore"):
        found = np.logaddexp.reduce(scores, -1, initial=-np.inf)
    return np.broadcast_to(found, attended.shape[:-1])


def lse_samples(rng: Rng) -> list[Sample]:
    """Every query sees a key: -inf has no finite difference."""
    return [
        Sample((array(rng, *lead, 3, 2), array(rng, *lead, 3, 4), array(rng, *lead, 5, 4), mask),
               {"is_causal": mask is None})
        for lead, mask in (((2,), None), ((), array(rng, 3, 5)))
    ]  # fmt: skip


def flash_samples(rng: Rng) -> list[Sample]:
    """Those of the composite, without a scale."""
    return [Sample(sample.args[:-1], sample.attrs) for sample in attention_samples(rng)]


FEATURES_DIFFER = ErrorSample(
    (np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 3)), None, 1.0), {}, RuntimeError, "differ"
)

flash_attention = op(
    name="flash_attention",
    doc="softmax(query @ key^T + mask) @ value in one pass; a bool mask is true where a key is "
    "seen. Leading dims broadcast, and the mask's to those of the scores.",
    inputs=(
        Arg("query"),
        Arg("key"),
        Arg("value"),
        Arg("mask", optional=True),
        Attr("is_causal", False),
    ),
    shape=attention_shape,
    dtype=attention_dtype,
    kind="attention",
    reference=flash_reference,
    grad=in_float32(flash_grad),
    promote="none",
    check=check_attention,
    samples=flash_samples,
    error_samples=(replace(FEATURES_DIFFER, args=FEATURES_DIFFER.args[:-1]),),
)

flash_lse = op(
    name="flash_lse",
    doc="log(sum(exp(query @ key^T + mask))) over keys: of the scores behind `attended`, which is "
    "the flash_attention of these operands (one kernel gives both); -inf where no key is seen.",
    inputs=(
        Arg("attended"),
        Arg("query"),
        Arg("key"),
        Arg("mask", optional=True),
        Attr("is_causal", False),
    ),
    shape=lambda call: call["attended"].shape[:-1],
    dtype=lambda call: call["query"].dtype.compute,
    kind="attention",
    reference=lse_reference,
    grad=in_float32(lse_grad),
    promote="none",
    samples=lse_samples,
)

scaled_dot_product_attention = composite(
    "scaled_dot_product_attention",
    "softmax(query @ key^T * scale + mask) @ value; a bool mask is true where a key is seen.",
    (
        Arg("query"),
        Arg("key"),
        Arg("value"),
        Arg("mask", optional=True),
        Attr("is_causal", False),
        Value("scale"),
    ),
    attention_decompose,
    attention_reference,
    attention_grad,
    shape=attention_shape,
    dtype=attention_dtype,
    promote="none",
    check=check_attention,
    samples=attention_samples,
    error_samples=(FEATURES_DIFFER,),
)
