"""nn.functional: attention. One op holds it all, unless probabilities are dropped."""

from __future__ import annotations

import math
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import bool_, float32, int64
from rushlight.ir.node import scalar_node
from rushlight.ops.rules import broadcast_shapes
from rushlight.tensors.apply import apply
from rushlight.tensors.functional_act import dropout, masked_softmax
from rushlight.tensors.functions_view import expand, reshape, transpose
from rushlight.tensors.tensor import Tensor, new_tensor
from rushlight.tensors.type_names import cpp_name

MOST_ROWS = 64  # more queries have work enough of their own


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value."""
    if scale is None:
        scale = 1 / math.sqrt(query._shape[-1]) if query._shape[-1] else math.inf
    if enable_gqa:
        rows = _as_rows(query, key, value, attn_mask, is_causal)
        if rows is not None:
            out = scaled_dot_product_attention(rows, key, value, attn_mask, dropout_p, scale=scale)
            return reshape(out, (*query._shape[:-1], value._shape[-1]))
        key, value = (for_each_head(x, query._shape[-3]) for x in (key, value))
    if attn_mask is not None:
        _check_mask(query, attn_mask, is_causal)
        if attn_mask._dtype is not bool_:
            attn_mask = apply(ops.cast, (attn_mask, query._dtype))
    if dropout_p:
        return _attend_with_dropout(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if attn_mask is not None and attn_mask.dim() > 2:
        # The mask may have leading dims that the operands have not.
        lead = broadcast_shapes(query._shape[:-2], attn_mask._shape[:-2])
        query = expand(query, (*lead, *query._shape[-2:]))
    # Of the dtype it is used in: one leaf, for the output and for the gradient.
    factor = scalar_node(float(scale), query._dtype.compute)
    operands = (query, key, value, attn_mask)
    return apply(ops.scaled_dot_product_attention, (*operands, is_causal, factor))


def _as_rows(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
) -> Tensor | None:
    """Few queries of the heads that share keys as rows of one head, so that each key is read once;
    None if there are many, or the mask tells them apart."""
    heads, kv_heads = query._shape[-3], key._shape[-3]
    count = heads // kv_heads * query._shape[-2] if kv_heads else 0
    tells = mask is not None and any(n != 1 for n in mask._shape[-3:-1])
    if is_causal or tells or not 0 < count <= MOST_ROWS or value._shape[-3] != kv_heads:
        return None
    if heads % kv_heads:
        return None
    return reshape(query, (*query._shape[:-3], kv_heads, count, query._shape[-1]))


def for_each_head(x: Tensor, heads: int) -> Tensor:
    """(..., N, S, E) -> (..., heads, S, E), each one repeated. No copy is made."""
    *lead, kv_heads, keys, size = x._shape
    if not kv_heads or heads % kv_heads:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query, but got "
            f"{kv_heads} and {heads}"
        )
    shared = expand(reshape(x, (*lead, kv_heads, 1, keys, size)),
                    (*lead, kv_heads, heads // kv_heads, keys, size))  # fmt: skip
    return reshape(shared, (*lead, heads, keys, size))


def _check_mask(query: Tensor, mask: Tensor, is_causal: bool) -> None:
    if is_causal:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True"
        )
    if mask._dtype not in (bool_, float32, query._dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {cpp_name(mask._dtype)} and  query.dtype: "
            f"{cpp_name(query._dtype)} instead."
        )


def _attend_with_dropout(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float, is_causal: bool,
    scale: float,
) -> Tensor:  # fmt: skip
    """Dropout acts on the probabilities, so here they are computed."""
    scores = (query * scale) @ transpose(key, -2, -1)
    if is_causal:
        mask = new_tensor(_causal(query._shape[-2], key._shape[-2]))
    if mask is not None:
        is_bool = mask._dtype is bool_
        scores = apply(ops.where, (mask, scores, -math.inf)) if is_bool else scores + mask
    weights = masked_softmax(scores, None if is_causal else mask)
    return dropout(weights, p) @ value


def _causal(rows: int, columns: int) -> Any:
    i = ops.reshape.node(ops.iota.node(rows, int64), (rows, 1))
    j = ops.reshape.node(ops.iota.node(columns, int64), (1, columns))
    return ops.ge.node(i, j)


__all__ = ["scaled_dot_product_attention"]
