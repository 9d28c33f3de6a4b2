"""Masks from functions of indices.

In: a mask_mod (b, h, q_idx, kv_idx) -> bool, ordinary Python on tensors. It is called with index
tensors that have the shape of the whole mask; they are pair values (ops/pairs.py), never stored.
Always true: `create_block_mask` never makes the dense mask (divide.py).
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight import ops
from rushlight.attention.block_mask import DEFAULT_BLOCK_SIZE, BlockMask
from rushlight.attention.divide import Division, as_four_dims
from rushlight.base.devices import find_device
from rushlight.tensors.apply import apply

ARITY = {4: "mask_mod", 5: "score_mod"}
COMPILE_FLAG = (
    "The _compile flag of create_block_mask has no effect: masks are always evaluated by compiled "
    "code, block by block."
)


def kind_of_mod(function: Callable) -> str:
    """'mask_mod' or 'score_mod', by the number of positional arguments without a default."""
    if hasattr(function, "__code__"):
        count = function.__code__.co_argcount - len(getattr(function, "__defaults__", None) or ())
        count -= inspect.ismethod(function)
    else:
        parameters = inspect.signature(function).parameters.values()
        count = sum(p.default is inspect.Parameter.empty for p in parameters)
    if count not in ARITY:
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return ARITY[count]


def create_mask(
    mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,  # noqa: N803
    device: Any = None,
) -> torch.Tensor:  # fmt: skip
    """The dense mask (B, H, Q_LEN, KV_LEN) of a mask_mod, or of where a score_mod keeps scores.
    `device`: where it is; that of the captured tensors by default.

    Example:
        >>> create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2)
        tensor([[[[ True, False],
                  [ True,  True]]]])
    """
    shape = shape_of_mask(B, H, Q_LEN, KV_LEN)
    kind = kind_of_mod(mod_fn)
    where = [apply(ops.pair_index, (shape, dim)) for dim in range(4)]
    with find_device(device):
        if kind == "mask_mod":
            found = as_four_dims(mod_fn(*where), shape, kind).contiguous()
        else:
            found = ~torch.isneginf(as_four_dims(mod_fn(torch.zeros(shape), *where), shape, kind))
    return found if device is None else found.to(device)


def create_block_mask(
    mask_mod: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,  # noqa: N803
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,  # noqa: N803
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:  # fmt: skip
    """The BlockMask of a mask_mod; B or H None means the same mask for all of them.

    `device`: where its lists are; that of the captured tensors by default.

    Example:
        >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256).sparsity()
        25.0
    """
    if kind_of_mod(mask_mod) != "mask_mod":
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    if _compile:
        warnings.warn(COMPILE_FLAG, DeprecationWarning, stacklevel=2)
    if not isinstance(dq_kv_order, bool):
        raise ValueError("dq_kv_order must be a bool when using create_block_mask")
    shape = shape_of_mask(B, H, Q_LEN, KV_LEN)
    division = Division(mask_mod, shape, sizes_of_blocks(BLOCK_SIZE), device)
    result = BlockMask.from_division(division, mask_mod, separate_full_blocks)
    if compute_dq_write_order:
        result.add_write_order(dq_kv_order)
        result.dq_kv_order_spt = dq_kv_order
    return result


def shape_of_mask(
    batch: int | None, heads: int | None, queries: int, keys: int
) -> tuple[int, int, int, int]:
    """Checked sizes; None means 1."""
    found = []
    for name, given in (("B", batch), ("H", heads), ("Q_LEN", queries), ("KV_LEN", keys)):
        size = 1 if given is None and name in "BH" else _as_int(name, given)
        if size < 0:
            raise ValueError(f"{name} must not be negative, got {given}")
        found.append(size)
    return tuple(found)  # type: ignore[return-value]


def sizes_of_blocks(given: Any) -> tuple[int, int]:
    """BLOCK_SIZE as (queries, keys)."""
    pair = tuple(given) if isinstance(given, (tuple, list)) else (given, given)
    sizes = tuple(_as_int("BLOCK_SIZE", size) for size in pair)
    if len(sizes) != 2 or min(sizes) < 1:
        raise ValueError(f"BLOCK_SIZE must be a positive int or two of them, got {given}")
    return sizes


def _as_int(name: str, given: Any) -> int:
    try:
        return operator.index(given)
    except (TypeError, AttributeError):
        raise TypeError(f"{name} must be an int, got {given!r}") from None


def and_masks(*mask_mods: Callable) -> Callable:
    """A mask_mod that keeps what every one of them keeps."""
    _check_callable(mask_mods)

    def and_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_ones((), dtype=torch.bool)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return and_mask


def or_masks(*mask_mods: Callable) -> Callable:
    """A mask_mod that keeps what any of them keeps."""
    _check_callable(mask_mods)

    def or_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_zeros((), dtype=torch.bool)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return or_mask


def _check_callable(mask_mods: tuple) -> None:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")
