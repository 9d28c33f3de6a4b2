"""MultiheadAttention.

Shape letters: B batch, L queries, S keys, H heads, D size of one head, E = H * D.
"""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter


def additive_mask(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """Turn a boolean mask (True = leave out) into one that is added to the scores."""
    if mask is None or mask.is_floating_point():
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))


class MultiheadAttention(Module):
    """Attention of several heads with learned projections (Vaswani et al. 2017).

    Example:
        >>> attention = MultiheadAttention(8, 2, batch_first=True)
        >>> x = torch.zeros(1, 5, 8)
        >>> attention(x, x, x)[0].shape
        torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} "
                f"and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        options = {"device": device, "dtype": dtype}
        shapes: dict[str, tuple[int, ...] | None] = dict.fromkeys(
            ["in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"]
        )
        if self._qkv_same_embed_dim:
            shapes["in_proj_weight"] = (3 * embed_dim, embed_dim)
        else:
            shapes["q_proj_weight"] = (embed_dim, embed_dim)
            shapes["k_proj_weight"] = (embed_dim, self.kdim)
            shapes["v_proj_weight"] = (embed_dim, self.vdim)
        shapes["in_proj_bias"] = (3 * embed_dim,) if bias else None
        shapes["bias_k"] = (1, 1, embed_dim) if add_bias_kv else None
        shapes["bias_v"] = (1, 1, embed_dim) if add_bias_kv else None
        for name, shape in shapes.items():
            start = None if shape is None else Parameter(torch.empty(shape, **options))
            self.register_parameter(name, start)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, **options)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (
            self.in_proj_weight,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
        ):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the outputs and, with `need_weights`, the attention weights."""
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint."
                if key_padding_mask is None and not need_weights
                else "need attn_mask if specifying the is_causal hint."
            )
        is_batched = query.dim() == 3
        if not is_batched:
            batch_dim = 0 if self.batch_first else 1
            query, key, value = (t.unsqueeze(batch_dim) for t in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        if not self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))

        q_BLE, k_BSE, v_BSE = self._project(query, key, value)
        mask = self._joined_mask(key_padding_mask, attn_mask, q_BLE)
        k_BSE, v_BSE, mask = self._with_extra_keys(k_BSE, v_BSE, mask)
        out_BLE, weights_BHLS = self._attend(q_BLE, k_BSE, v_BSE, mask, need_weights)
        out = self.out_proj(out_BLE)

        if not self.batch_first:
            out = out.transpose(0, 1)
        if weights_BHLS is not None and average_attn_weights:
            weights_BHLS = weights_BHLS.mean(dim=1)
        if not is_batched:
            out = out.squeeze(0 if self.batch_first else 1)
            weights_BHLS = None if weights_BHLS is None else weights_BHLS.squeeze(0)
        return out, weights_BHLS

    def _project(self, query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        inputs = zip((query, key, value), weights, biases, strict=True)
        q, k, v = (F.linear(x, weight, bias) for x, weight, bias in inputs)
        return q, k, v

    def _joined_mask(
        self, key_padding_mask: Any, attn_mask: Any, query: torch.Tensor
    ) -> torch.Tensor | None:
        """Add both masks to one that broadcasts to (B, H, L, S)."""
        padding = additive_mask(key_padding_mask, query.dtype)
        mask = additive_mask(attn_mask, query.dtype)
        if mask is not None and mask.dim() == 3:
            mask = mask.view(query.size(0), self.num_heads, *mask.shape[1:])
        elif mask is not None:
            mask = mask.view(1, 1, *mask.shape)
        if padding is None:
            return mask
        padding = padding.view(padding.size(0), 1, 1, padding.size(1))
        return padding if mask is None else mask + padding

    def _with_extra_keys(
        self, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Append the learned and the zero key; every query sees them."""
        batch = key.size(0)
        extra = 0
        if self.bias_k is not None:
            key = torch.cat([key, self.bias_k.expand(batch, 1, -1)], dim=1)
            value = torch.cat([value, self.bias_v.expand(batch, 1, -1)], dim=1)
            extra += 1
        if self.add_zero_attn:
            key = torch.cat([key, key.new_zeros(batch, 1, key.size(2))], dim=1)
            value = torch.cat([value, value.new_zeros(batch, 1, value.size(2))], dim=1)
            extra += 1
        return key, value, mask if mask is None else F.pad(mask, (0, extra))

    def _split_heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_dim).transpose(1, 2)

    def _attend(
        self, query: Any, key: Any, value: Any, mask: torch.Tensor | None, need_weights: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        q_BHLD, k_BHSD, v_BHSD = (self._split_heads(x) for x in (query, key, value))
        dropout = self.dropout if self.training else 0.0
        weights_BHLS = None
        if need_weights:
            scores = (q_BHLD * math.sqrt(1.0 / self.head_dim)) @ k_BHSD.transpose(-2, -1)
            scores = scores if mask is None else scores + mask
            weights_BHLS = F._masked_softmax(scores, mask)
            weights_BHLS = F.dropout(weights_BHLS, dropout, dropout > 0)
            out_BHLD = weights_BHLS @ v_BHSD
        else:
            out_BHLD = F.scaled_dot_product_attention(
                q_BHLD, k_BHSD, v_BHSD, attn_mask=mask, dropout_p=dropout
            )
        return out_BHLD.transpose(1, 2).flatten(2), weights_BHLS
