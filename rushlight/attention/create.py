"""Masks from functions of indices.

In: a mask_mod (b, h, q_idx, kv_idx) -> bool, ordinary Python on tensors. It is called with index
tensors that broadcast against each other ([B,1,1,1], [1,H,1,1], [1,1,L,1], [1,1,1,S]).
Always true: `create_block_mask` evaluates a few rows of blocks at a time, never the dense mask.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.attention.block_mask import DEFAULT_BLOCK_SIZE, BlockMask, ceil_div
from rushlight.attention.runs import runs_of

ELEMENTS_AT_ONCE = 1 << 22
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


def indices_of(start: int, stop: int, dim: int) -> torch.Tensor:
    """start...stop-1 along one of four dimensions. The start is an input of the program."""
    shape = [1, 1, 1, 1]
    shape[dim] = stop - start
    return (torch.arange(stop - start, dtype=torch.int32) + start).view(shape)


def as_four_dims(result: Any, shape: tuple[int, ...], what: str) -> torch.Tensor:
    """What a mod returned, broadcast to (B, H, L, S)."""
    result = result if isinstance(result, torch.Tensor) else torch.tensor(result)
    if result.dim() > 4:
        raise ValueError(
            f"{what} must return one value per (b, h, q_idx, kv_idx), got shape "
            f"{tuple(result.shape)} for {shape}; index a captured tensor by all its indices at "
            "once: table[b, q_idx], not table[b][q_idx]"
        )
    return result.expand(shape)


def create_mask(
    mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,  # noqa: N803
    device: Any = None,
) -> torch.Tensor:  # fmt: skip
    """The dense mask (B, H, Q_LEN, KV_LEN) of a mask_mod, or of where a score_mod keeps scores.

    Example:
        >>> create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2)
        tensor([[[[ True, False],
                  [ True,  True]]]])
    """
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    kind = kind_of_mod(mod_fn)
    where = [indices_of(0, size, dim) for dim, size in enumerate(shape)]
    if kind == "mask_mod":
        return as_four_dims(mod_fn(*where), shape, kind).contiguous()
    scores = as_four_dims(mod_fn(torch.zeros(shape), *where), shape, kind)
    return ~torch.isneginf(scores)


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
    sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    if min(sizes) < 1:
        raise ValueError(f"BLOCK_SIZE must be positive, got {BLOCK_SIZE}")
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    kept = _count_kept(mask_mod, shape, sizes)
    area = sizes[0] * sizes[1]
    kept = kept.numpy()
    states = (kept > 0).astype(np.int8) + (separate_full_blocks & (kept == area))
    runs = runs_of(states.astype(np.int8))
    lengths = (Q_LEN, KV_LEN)
    result = BlockMask.from_runs(runs, sizes, mask_mod, lengths, separate_full_blocks)
    result.blocks_follow_mod = True
    if compute_dq_write_order:
        result.add_write_order(dq_kv_order)
        result.dq_kv_order_spt = dq_kv_order
    return result


def _count_kept(mask_mod: Callable, shape: tuple[int, ...], sizes: tuple[int, int]) -> torch.Tensor:
    """Elements kept in each block: (B, H, Q, K), int32."""
    batch, heads, queries, keys = shape
    columns = ceil_div(keys, sizes[1])
    if queries == 0 or keys == 0:
        return torch.zeros(
            (batch, heads, ceil_div(queries, sizes[0]), columns), dtype=torch.int32
        )  # fmt: skip
    row_elements = batch * heads * sizes[0] * keys
    step = max(1, ELEMENTS_AT_ONCE // row_elements) * sizes[0]
    pieces = []
    for start in range(0, queries, step):
        rows = min(step, queries - start)
        piece = _count_rows(mask_mod, (batch, heads, start, rows, keys), sizes)
        pieces.append(piece)
        if step < queries:
            del piece
            torch.flush()
    return torch.cat(pieces, dim=2)


def _count_rows(mask_mod: Callable, part: tuple[int, ...], sizes: tuple[int, int]) -> torch.Tensor:
    batch, heads, start, rows, keys = part
    where = [indices_of(0, batch, 0), indices_of(0, heads, 1)]
    where += [indices_of(start, start + rows, 2), indices_of(0, keys, 3)]
    mask = mask_mod(*where)
    mask = as_four_dims(mask, (batch, heads, rows, keys), "mask_mod")
    if mask.dtype is not torch.bool:
        raise AssertionError(f"mask.dtype must be torch.bool, got {mask.dtype}")
    blocks = (ceil_div(rows, sizes[0]), ceil_div(keys, sizes[1]))
    right, below = blocks[1] * sizes[1] - keys, blocks[0] * sizes[0] - rows
    if right or below:
        mask = torch.nn.functional.pad(mask.to(torch.int32), (0, right, 0, below))
    cut = mask.reshape(batch, heads, blocks[0], sizes[0], blocks[1], sizes[1])
    return cut.to(torch.int32).sum(dim=(3, 5)).to(torch.int32)


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
