"""Attention: a softmax over the keys of scores that are never stored, times the values.

`flash_attention`, `flash_lse` and `flash_top` take scores as a pair value (ops/pairs.py) and come
from one pass over blocks of keys. `scaled_dot_product_attention` is made of them. Its gradient
keeps nothing but operands and output: the probabilities are computed again.

Shape letters: L queries, S keys, E features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_
from rushlight.ir.complex_operands import refusal
from rushlight.ir.opdef import Arg, Attr, Call, NotDifferentiable, Value, op
from rushlight.ops.binary import add, eq
from rushlight.ops.build import keep, like, sum_to_shape, to_dtype
from rushlight.ops.composite import composite, in_float32
from rushlight.ops.meta import Meta
from rushlight.ops.pairs import MINUS, broadcast_lead, pair_dot, pair_mask, pair_sum
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import Shape, broadcast_shapes, is_static, operand_dtype
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, truth
from rushlight.ops.select import where
from rushlight.ops.unary import exp


def masked_scores(query: Any, key: Any, mask: Any, is_causal: bool, scale: Any) -> Any:
    """query @ key^T * scale, masked: -inf where a key must not be seen. A pair value."""
    scores = pair_dot(query, key)
    scores = scores * like(scale, scores.dtype)
    keep = mask if mask is not None and mask.dtype is bool_ else None
    if mask is not None and keep is None:
        scores = add(scores, to_dtype(mask, scores.dtype))
    if keep is None and not is_causal:
        return scores
    return pair_mask(scores, keep, [], is_causal=is_causal, fill="minus")


def probabilities(scores: Any, lse: Any) -> Any:
    """softmax over keys, from the lse of every query; a row that sees no key gets zeros."""
    base = where(eq(lse, MINUS), 0.0, lse)
    return exp(scores - keep(base, scores.shape, (scores.ndim - 1,)))


def attention_decompose(
    query: Any, key: Any, value: Any, mask: Any = None, is_causal: bool = False, scale: Any = 1.0
) -> Any:
    scores = masked_scores(query, key, mask, is_causal, scale)
    return flash_attention(scores, value, flash_lse(scores))


def attention_grad(
    g: Any, out: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: Any,
    meta: Meta,
) -> tuple:  # fmt: skip
    """Row sums of (dp * p) are row sums of (g * out): no second pass over the keys. The terms are
    those of flash_grad and lse_grad, so the bits are, too."""
    scores = masked_scores(query, key, mask, is_causal, scale)
    lead = meta.out_shape[:-2]
    p = broadcast_lead(probabilities(scores, flash_lse(scores)), lead)
    inner = keep(-reduce_sum(g * out, (g.ndim - 1,)), g.shape, (g.ndim - 1,))
    by_scores = p * pair_dot(g, value) + p * inner
    by_product = by_scores * like(scale, by_scores.dtype)
    by_mask = by_query = by_key = by_value = None
    if meta.needs("query"):
        by_query = pair_sum(by_product, key, over="s")
    if meta.needs("key"):
        by_key = pair_sum(by_product, query, over="l")
    if meta.needs("value"):
        by_value = pair_sum(p, g, over="l")
    if mask is not None and mask.dtype is not bool_ and meta.needs("mask"):
        by_mask = by_scores
    return by_query, by_key, by_value, by_mask


def flash_grad(g: Any, scores: Any, value: Any, lse: Any, out: Any, meta: Meta) -> tuple:
    """A larger lse shrinks every probability of its row."""
    by_scores = by_value = by_lse = None
    p = broadcast_lead(probabilities(scores, lse), meta.out_shape[:-2])
    if meta.needs("scores"):
        by_scores = p * pair_dot(g, value)
        by_scores = sum_to_shape(by_scores, by_scores.shape, meta.shape("scores"))
    if meta.needs("value"):
        by_value = pair_sum(p, g, over="l")
        by_value = sum_to_shape(by_value, by_value.shape, meta.shape("value"))
    if meta.needs("lse"):
        by_lse = -reduce_sum(g * out, (g.ndim - 1,))
        by_lse = sum_to_shape(by_lse, by_lse.shape, meta.shape("lse"))
    return by_scores, by_value, by_lse


def lse_grad(g: Any, scores: Any, out: Any, meta: Meta) -> tuple:
    p = probabilities(scores, out)
    return (p * keep(g, p.shape, (p.ndim - 1,)),)


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
    dtype = call["query"].dtype
    if not dtype.is_floating_point:
        raise NotImplementedError(refusal(call.op.name, dtype))
    return dtype


def check_attention(call: Call) -> None:
    q, k, v = (call[name].shape for name in ("query", "key", "value"))
    if min(len(q), len(k), len(v)) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{len(q)} key.dim: {len(k)} and value.dim: {len(v)} instead."
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


def scores_reference(
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
    scores = scores_reference(query, key, mask, scale, is_causal)
    return flash_reference(scores, value, lse_reference(scores))


def flash_reference(scores: np.ndarray, value: np.ndarray, lse: np.ndarray) -> np.ndarray:
    base = np.where(np.isneginf(lse), 0, lse)
    return np.matmul(np.exp(scores - base[..., None]), value)


def lse_reference(scores: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.logaddexp.reduce(scores, -1, initial=-np.inf)


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


def score_samples(rng: Rng) -> list[np.ndarray]:
    """Every query sees a key: -inf has no finite difference."""
    return [array(rng, 2, 3, 5), array(rng, 3, 5), array(rng, 4, 1)]


def flash_samples(rng: Rng) -> list[Sample]:
    found = []
    for scores in score_samples(rng):
        value = array(rng, *scores.shape[:-2], scores.shape[-1], 2)
        found.append(Sample((scores, value, lse_reference(scores))))
    return [*found, Sample((found[1].args[0], array(rng, 2, 5, 3), found[1].args[2]))]


FEATURES_DIFFER = ErrorSample(
    (np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 3)), None, 1.0), {}, RuntimeError, "differ"
)


def check_flash(call: Call) -> None:
    keys, values = call["scores"].shape[-1], call["value"].shape[-2]
    if keys != values and is_static(keys) and is_static(values):
        raise RuntimeError(f"flash_attention: {keys} keys but {values} values")


flash_attention = op(
    name="flash_attention",
    doc="softmax(scores) @ value in one pass; `lse` is flash_lse(scores). A row whose scores are "
    "all -inf gives 0.",
    inputs=(Arg("scores"), Arg("value"), Arg("lse")),
    shape=lambda call: (
        *broadcast_shapes(call["scores"].shape[:-2], call["value"].shape[:-2]),
        call["scores"].shape[-2],
        call["value"].shape[-1],
    ),
    dtype=operand_dtype,
    kind="attention",
    reference=flash_reference,
    grad=in_float32(flash_grad),
    promote="none",
    check=check_flash,
    samples=flash_samples,
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((4, 3)), np.ones(2)), {}, RuntimeError, "but 4"),
    ),
)

flash_lse = op(
    name="flash_lse",
    doc="log(sum(exp(scores))) over keys, -inf where all scores are; comes from the same pass.",
    inputs=(Arg("scores"),),
    shape=lambda call: call["scores"].shape[:-1],
    dtype=operand_dtype,
    kind="attention",
    reference=lse_reference,
    grad=in_float32(lse_grad),
    promote="none",
    samples=lambda rng: [Sample((scores,)) for scores in score_samples(rng)],
)

flash_top = op(
    name="flash_top",
    doc="The largest score of every query, NaN left out; comes from the same pass.",
    inputs=(Arg("scores"),),
    shape=lambda call: call["scores"].shape[:-1],
    dtype=operand_dtype,
    kind="attention",
    reference=lambda scores: np.fmax.reduce(scores, -1, initial=-np.inf),
    grad=NotDifferentiable("the largest score is given for inspection only"),
    promote="none",
    samples=lambda rng: [Sample((scores,)) for scores in score_samples(rng)],
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
    error_samples=(
        FEATURES_DIFFER,
        ErrorSample((*(np.ones((2, 3), np.int32),) * 3, None, 1.0), {}, NotImplementedError, "Int"),
    ),
)
