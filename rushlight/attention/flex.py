"""flex_attention: checks, defaults, and the choice of what to compute.

The names, the order of the checks and the texts of the errors are PyTorch's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import rushlight as torch
from rushlight.attention.block_mask import BlockMask
from rushlight.attention.compute import as_dtype, attention
from rushlight.attention.kernel_options import FlexKernelOptions, choice_of
from rushlight.attention.own_mods import sliced_mask_mod_error
from rushlight.tensors.apply import product_operands

_WARNED: set[str] = set()


class FlexShapeError(ValueError, RuntimeError):
    """Shapes that do not fit each other."""


class AuxRequest(NamedTuple):
    """Which outputs to return beside the attention."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What an AuxRequest asked for; None for the rest."""

    lse: torch.Tensor | None = None
    max_scores: torch.Tensor | None = None


def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention whose scores a function may change and a mask may leave out.

    `score_mod(score, b, h, q_idx, kv_idx)` is ordinary tensor code with broadcasting indices; what
    it captures is gathered by index and gets gradients.

    Example:
        >>> q = torch.ones(1, 1, 2, 4)
        >>> from rushlight.attention import create_block_mask
        >>> causal = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2)
        >>> flex_attention(q, q, q, block_mask=causal).shape
        torch.Size([1, 1, 2, 4])
    """
    _check_tensors(query, key, value)
    query, key, value = product_operands(query, key, value)
    _check_heads(query, key, enable_gqa)
    query, key, value = _same_batch(query, key, value, block_mask)
    if block_mask is not None:
        _check_block_mask(block_mask, (*query.shape[:3], key.size(2)))
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. "
            "return_lse is deprecated, please use return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        _warn_return_lse()
    choice = choice_of(kernel_options)
    scale = 1.0 / math.sqrt(query.size(-1) or 1) if scale is None else scale
    with query.device:  # the mods may make tensors
        value = as_dtype(value, query)
        found = attention(query, key, value, score_mod, block_mask, scale, choice)
    if return_aux is not None:
        return found.out, AuxOutput(
            found.lse() if return_aux.lse else None,
            found.top() if return_aux.max_scores else None,
        )
    return (found.out, found.lse()) if return_lse else found.out


def _check_tensors(query: Any, key: Any, value: Any) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"flex_attention: {name} must be a Tensor, got {type(tensor).__name__}")
        if not tensor.is_floating_point():
            raise ValueError(
                f"flex_attention: {name} must have a floating-point dtype, got {tensor.dtype}"
            )
    if query.dim() > 0 and key.dim() > 0 and query.size(-1) != key.size(-1):
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension "
            f"but got E={query.size(-1)} and E={key.size(-1)}."
        )
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if key.shape[:3] != value.shape[:3]:
        raise FlexShapeError(
            "Expect key and value to have the same batch size, heads and length "
            f"but got key {tuple(key.shape)} and value {tuple(value.shape)}."
        )


def _check_heads(query: Any, key: Any, enable_gqa: bool) -> None:
    heads, kv_heads = query.size(1), key.size(1)
    if not enable_gqa and heads != kv_heads:
        raise ValueError(
            "Expect query and key/value to have the same number of heads "
            f"but got Hq={heads} and Hkv={kv_heads}. Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and (kv_heads == 0 or heads % kv_heads != 0):
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA "
            f"but got Hq={heads} and Hkv={kv_heads}."
        )


def _same_batch(query: Any, key: Any, value: Any, block_mask: Any) -> tuple:
    """One batch of keys may serve all queries."""
    q_batch, kv_batch = query.size(0), key.size(0)
    if q_batch == kv_batch:
        return query, key, value
    if block_mask is None:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, "
            f"but got block_mask=None, Bq={q_batch}, and Bkv={kv_batch}."
        )
    mask_batch = block_mask.kv_num_blocks.size(0)
    if mask_batch != q_batch:
        raise ValueError(
            "Expect query and key/value to have the same batch size, "
            "or block_mask and query to have the same batch size, "
            f"but got Bq={q_batch}, Bkv={kv_batch}, B_block_mask={mask_batch}."
        )
    if kv_batch != 1:
        raise FlexShapeError(
            f"key and value of batch size {kv_batch} cannot serve a query of batch size {q_batch}"
        )
    return query, *(t.expand(q_batch, -1, -1, -1) for t in (key, value))


def _check_block_mask(block_mask: Any, sizes: tuple[int, int, int, int]) -> None:
    """sizes: of the scores."""
    if not isinstance(block_mask, BlockMask):
        raise TypeError(
            f"flex_attention: block_mask must be a BlockMask, got {type(block_mask).__name__}"
        )
    if block_mask.mask_mod is sliced_mask_mod_error:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
    (q_len, kv_len), (mask_q, mask_kv) = sizes[2:], block_mask.shape[-2:]
    for name, of_mask, size in zip(("batch size", "heads"), block_mask.lead(), sizes, strict=False):
        if of_mask not in (1, size):
            raise ValueError(
                f"block_mask was created for block_mask.shape={block_mask.shape}, but the query "
                f"has {name} {size}: that of the mask must be 1 or the same"
            )
    if (mask_q, mask_kv) == (q_len, kv_len):
        return
    start = (
        f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={q_len} "
        f"and kv_len={kv_len}. "
    )
    if q_len > mask_q or kv_len > mask_kv:
        raise ValueError(
            f"{start}As the block mask was created for a smaller length than you're using it for, "
            "you likely need to create a new block mask."
        )
    raise ValueError(
        f"{start}As the block mask was created for a larger length than you're using it for, you "
        "can either 1. create a new block mask with the correct length, or 2. 'adjust' the "
        "existing block mask to the correct length by calling block_mask._adjust(q_len, kv_len). "
        "This essentially 'crops' the block mask to the upper left corner, which does not work "
        "for all mask_mods!"
    )


def _warn_return_lse() -> None:
    if "return_lse" in _WARNED:
        return
    _WARNED.add("return_lse")
    warnings.warn(
        "return_lse is deprecated and will be removed in v2.10. "
        "Please use return_aux=AuxRequest(lse=True) instead.",
        FutureWarning,
        stacklevel=3,
    )
