"""Causal masks for `scaled_dot_product_attention` that know at which corner they begin."""

from __future__ import annotations

import enum
from typing import Any

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Where the diagonal of the mask begins, when queries and keys differ in number."""

    UPPER_LEFT, LOWER_RIGHT = 1, 2


class CausalBias(torch.Tensor):
    """A mask of truth values, (seq_len_q, seq_len_kv): True where a query may see a key."""

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise TypeError(f"variant: got {variant!r}, expected a CausalVariant")
        shift = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
        mask = torch.ones(seq_len_q, seq_len_kv, dtype=torch.bool).tril(diagonal=shift)
        made: Any = mask.as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self.as_subclass(torch.Tensor).__repr__()


def causal_upper_left(*size: int) -> CausalBias:
    """Query i sees keys 0 to i.

    >>> causal_upper_left(2, 3).tolist()
    [[True, False, False], [True, True, False]]
    """
    return _biased(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """The last query sees all keys.

    >>> causal_lower_right(2, 3).tolist()
    [[True, True, False], [True, True, True]]
    """
    return _biased(CausalVariant.LOWER_RIGHT, size)


def _biased(variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"only 2D tensors are supported, got {len(size)} sizes")
    return CausalBias(variant, *size)
