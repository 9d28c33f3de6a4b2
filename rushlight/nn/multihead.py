"""`multi_head_attention_forward`: attention of several heads, with its projections and masks.

Shape letters: B batch, L queries, S keys, H heads, D size of one head, E = H * D.
"""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.tensors import functional as F

Tensor = torch.Tensor


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the outputs (L, B, E) and, with `need_weights`, the attention weights.

    Args:
        query, key, value: (L, B, E), (S, B, E_k), (S, B, E_v); without a batch 2-D.
        key_padding_mask: (B, S), true or -inf where a key is left out.
        attn_mask: (L, S) or (B * H, L, S), true or -inf where a pair is left out.
        static_k, static_v: (B * H, S, D), taken instead of the projected keys and values.
        is_causal: a hint that attn_mask is the causal mask; it needs the mask too.
    """
    is_batched = check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    check_call(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    inputs = [x.transpose(0, 1) for x in (query, key, value)]
    weights: Any = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        weights = in_proj_weight.chunk(3)  # type: ignore[union-attr]
    biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = (F.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True))

    mask = joined_mask(key_padding_mask, attn_mask, q, k.size(1), num_heads)
    mask_extra = 0
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        batch = k.size(0)
        k = torch.cat([k, bias_k.expand(batch, 1, -1)], dim=1)
        v = torch.cat([v, bias_v.expand(batch, 1, -1)], dim=1)
        mask_extra += 1
    q_BHLD = split_heads(q, num_heads)
    k_BHSD = heads_or_static(k, static_k, num_heads, "static_k")
    v_BHSD = heads_or_static(v, static_v, num_heads, "static_v")
    if add_zero_attn:
        k_BHSD, v_BHSD = (F.pad(x, (0, 0, 0, 1)) for x in (k_BHSD, v_BHSD))
        mask_extra += 1
    if mask is not None and mask_extra:
        mask = F.pad(mask, (0, mask_extra))

    dropout = dropout_p if training else 0.0
    out_BHLD, weights_BHLS = attend(q_BHLD, k_BHSD, v_BHSD, mask, dropout, need_weights)
    out_BLE = out_BHLD.transpose(1, 2).flatten(2)
    out = F.linear(out_BLE, out_proj_weight, out_proj_bias).transpose(0, 1)
    if weights_BHLS is not None and average_attn_weights:
        weights_BHLS = weights_BHLS.mean(dim=1)
    if not is_batched:
        out = out.squeeze(1)
        weights_BHLS = None if weights_BHLS is None else weights_BHLS.squeeze(0)
    return out, weights_BHLS


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Attention of (B, H, L, D); the weights only where they are wanted."""
    if not need_weights:
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return out, None
    scores = (query * math.sqrt(1.0 / query.size(-1))) @ key.transpose(-2, -1)
    scores = scores if mask is None else scores + mask
    weights = F.masked_softmax(scores, mask)
    weights = F.dropout(weights, dropout, dropout > 0)
    return weights @ value, weights


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, S, E) to (B, H, S, D)."""
    return x.view(x.size(0), x.size(1), heads, x.size(2) // heads).transpose(1, 2)


def heads_or_static(x: Tensor, static: Tensor | None, heads: int, name: str) -> Tensor:
    """The heads of the projected keys or values, or those that were given."""
    if static is None:
        return split_heads(x, heads)
    batch, size = x.size(0), x.size(2) // heads
    if static.size(0) != batch * heads:
        raise AssertionError(
            f"expecting {name}.size(0) of {batch * heads}, but got {static.size(0)}"
        )
    if static.size(2) != size:
        raise AssertionError(f"expecting {name}.size(2) of {size}, but got {static.size(2)}")
    return static.view(batch, heads, static.size(1), size)


def additive_mask(mask: Tensor | None, name: str, dtype: torch.dtype) -> Tensor | None:
    """Turn a boolean mask (True = leave out) into one that is added to the scores."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype != torch.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))


def joined_mask(
    key_padding_mask: Tensor | None, attn_mask: Tensor | None, query: Tensor, keys: int, heads: int
) -> Tensor | None:
    """Add both masks to one that broadcasts to (B, H, L, S)."""
    batch, queries = query.size(0), query.size(1)
    padding = additive_mask(key_padding_mask, "key_padding_mask", query.dtype)
    mask = additive_mask(attn_mask, "attn_mask", query.dtype)
    if mask is not None:
        wanted = (queries, keys) if mask.dim() == 2 else (batch * heads, queries, keys)
        if tuple(mask.shape) != wanted:
            raise RuntimeError(
                f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {wanted}."
            )
        lead = (1, 1) if mask.dim() == 2 else (batch, heads)
        mask = mask.view(*lead, queries, keys)
    if padding is None:
        return mask
    for place, (size, wanted_size) in enumerate(zip(padding.shape, (batch, keys), strict=True)):
        if size != wanted_size:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{place}] to be {wanted_size}, but got {size}"
            )
    padding = padding.view(batch, 1, 1, keys)
    return padding if mask is None else mask + padding


def check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    heads: int,
) -> bool:
    """Say if there is a batch; raise when the numbers of dimensions do not fit."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        )
    is_batched = query.dim() == 3
    kind = "batched (3-D)" if is_batched else "unbatched (2-D)"
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {query.dim()}-D but found "
            f"{key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != query.dim() - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {query.dim() - 1}-D "
            f"but found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{attn_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() == 3 and not is_batched:
        wanted = (heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != wanted:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {wanted} but got {attn_mask.shape}"
            )
    return is_batched


def check_call(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, heads: int, is_separate: bool
) -> None:
    """Raise when the sizes of queries, keys and values do not fit."""
    if query.size(-1) != embed_dim:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim}, but got {query.size(-1)}"
        )
    if embed_dim // heads * heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {heads}")
    if is_separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not is_separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
