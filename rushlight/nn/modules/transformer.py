"""The Transformer (Vaswani et al. 2017): encoder and decoder layers, their stacks, and both.

Shapes are (S, N, E), or (N, S, E) with `batch_first`, or (S, E). In masks true, or -inf, leaves a
pair or a key out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.container import ModuleList
from rushlight.nn.modules.dropout import Dropout
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.multihead_attention import MultiheadAttention
from rushlight.nn.modules.normalization import LayerNorm

Tensor = torch.Tensor
Activation = str | Callable[[Tensor], Tensor]


def _get_activation_fn(activation: Activation) -> Callable[[Tensor], Tensor]:
    """The function of a name."""
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


def causal_mask(size: int, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
    """-inf above the diagonal, zero elsewhere."""
    return torch.triu(
        torch.full((size, size), float("-inf"), dtype=dtype, device=device), diagonal=1
    )


def detect_causal(mask: Tensor | None, is_causal: bool | None) -> bool:
    """Say if a mask is the causal one; it is looked at only when nobody said."""
    if is_causal is not None or mask is None:
        return is_causal is True
    size = mask.size(-1)
    if mask.dim() != 2 or mask.size(0) != size or mask.dtype == torch.bool:
        return False
    return bool((mask == causal_mask(size, mask.device, mask.dtype)).all())


class _Layer(Module):
    """What both kinds of layers share: attention, a small network, and their order."""

    attentions: tuple[str, ...]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **options
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.norm_first = norm_first
        blocks = range(1, len(self.attentions) + 2)
        for number in blocks:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
            setattr(self, f"norm{number}", norm)
        for number in blocks:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _residual(self, number: int, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """x plus a block of it, normalized before the block or after the sum."""
        norm = getattr(self, f"norm{number}")
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _ff_block(self, x: Tensor) -> Tensor:
        last = getattr(self, f"dropout{len(self.attentions) + 1}")
        return last(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a small network, each with a residual sum and a LayerNorm.

    Example:
        >>> TransformerEncoderLayer(8, 2, 16)(torch.zeros(5, 1, 8)).shape
        torch.Size([5, 1, 8])
    """

    attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the layer's output, of the shape of `src`."""
        check_mask_kind(src_key_padding_mask, "src_key_padding_mask")
        check_mask_kind(src_mask, "src_mask")

        def self_attention(x: Tensor) -> Tensor:
            return self._sa_block(x, src_mask, src_key_padding_mask, is_causal)

        return self._residual(2, self._residual(1, src, self_attention), self._ff_block)

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, padding: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attended, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=padding,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout1(attended)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's output, and a small network.

    Example:
        >>> layer = TransformerDecoderLayer(8, 2, 16)
        >>> layer(torch.zeros(5, 1, 8), memory=torch.zeros(7, 1, 8)).shape
        torch.Size([5, 1, 8])
    """

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the layer's output, of the shape of `tgt`."""

        def self_attention(x: Tensor) -> Tensor:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def cross_attention(x: Tensor) -> Tensor:
            return self._mha_block(
                x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            )

        x = self._residual(1, tgt, self_attention)
        return self._residual(3, self._residual(2, x, cross_attention), self._ff_block)

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, padding: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attended, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=padding,
            is_causal=is_causal,
            need_weights=False,
        )
        return self.dropout1(attended)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        padding: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        attended, _ = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=padding,
            is_causal=is_causal,
            need_weights=False,
        )
        return self.dropout2(attended)


def check_mask_kind(mask: Tensor | None, name: str) -> None:
    """Raise unless a mask is boolean or floating-point."""
    if mask is not None and mask.dtype != torch.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")


class _Stack(Module):
    """Copies of one layer, one after the other, and a last normalization."""

    def _fill(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm


class TransformerEncoder(_Stack):
    """A stack of encoder layers.

    `enable_nested_tensor` and `mask_check` are accepted and change nothing: no layer here packs
    its rows.

    Example:
        >>> encoder = TransformerEncoder(TransformerEncoderLayer(8, 2, 16), num_layers=2)
        >>> encoder(torch.zeros(5, 1, 8)).shape
        torch.Size([5, 1, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self._fill(encoder_layer, num_layers, norm)
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the output of the last layer, of the shape of `src`."""
        check_mask_kind(src_key_padding_mask, "src_key_padding_mask")
        check_mask_kind(mask, "mask")
        is_causal = detect_causal(mask, is_causal)
        output = src
        for layer in self.layers:
            output = layer(
                output,
                src_mask=mask,
                is_causal=is_causal,
                src_key_padding_mask=src_key_padding_mask,
            )
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(_Stack):
    """A stack of decoder layers.

    Example:
        >>> decoder = TransformerDecoder(TransformerDecoderLayer(8, 2, 16), num_layers=2)
        >>> decoder(torch.zeros(5, 1, 8), torch.zeros(7, 1, 8)).shape
        torch.Size([5, 1, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self._fill(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the last layer, of the shape of `tgt`."""
        output = tgt
        tgt_is_causal = detect_causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder that attends to its output.

    Example:
        >>> model = Transformer(8, 2, 1, 1, 16)
        >>> model(torch.zeros(5, 1, 8), torch.zeros(7, 1, 8)).shape
        torch.Size([7, 1, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        shared = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

        def last_norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*shared)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, last_norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*shared)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, last_norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoder's output, of the shape of `tgt`."""
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch_dim) != tgt.size(batch_dim):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Any = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Return the causal mask of `sz` places: -inf above the diagonal."""
        return causal_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
