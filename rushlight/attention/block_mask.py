"""BlockMask: which blocks of a (queries x keys) score matrix a mask leaves anything of.

In: index lists of blocks. Out: counts, pictures, slices, and `states`, which the computation
reads. A block is absent, partial (its mask_mod decides element by element) or full (every element
is kept). Always true: only the first `num_blocks` entries of an index row count.

Shape letters: B batch, H heads, Q blocks of queries, K blocks of keys.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.attention.block_lists import (
    adjusted_blocks,
    blocks_to_dense,
    dq_write_orders,
    transposed_blocks,
)
from rushlight.attention.block_picture import picture

DEFAULT_BLOCK_SIZE = 128
BOTH = "full_{0}_num_blocks and full_{0}_indices must be both provided or omitted"
NO_TENSOR_ORDER = (
    "{} BlockMask with tensor dq_kv_order is not supported yet. "
    "Construct a new BlockMask with matching precomputed dq_write_order metadata."
)


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Keep every element."""
    return batch.new_ones(size=(), dtype=torch.bool, device=batch.device)


def sliced_mask_mod_error(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask_mod of a slice: its indices would no longer be those of the whole mask."""
    raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


class BlockMask:
    """Block structure of a mask, with the function that decides inside partial blocks."""

    _TENSOR_ATTRS = (
        "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
        "q_indices", "full_q_num_blocks", "full_q_indices", "dq_write_order",
        "dq_write_order_full", "dq_kv_order",
    )  # fmt: skip
    _CONTEXT_ATTRS = ("seq_lengths", "BLOCK_SIZE", "mask_mod", "dq_kv_order_spt")

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any,
        full_kv_indices: Any,
        q_num_blocks: Any,
        q_indices: Any,
        full_q_num_blocks: Any,
        full_q_indices: Any,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK_SIZE, DEFAULT_BLOCK_SIZE),  # noqa: N803
        mask_mod: Callable = noop_mask,
        *,
        dq_write_order: Any = None,
        dq_write_order_full: Any = None,
        dq_kv_order: Any = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(BOTH.format("kv"))
        if (full_q_num_blocks is None) != (full_q_indices is None):
            raise AssertionError(BOTH.format("q"))
        if dq_write_order_full is not None and dq_write_order is None:
            raise ValueError("dq_write_order_full requires dq_write_order")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod
        # True when mask_mod alone says what is kept, so that blocks need not be looked up.
        self._blocks_follow_mod = False
        self._states: tuple[tuple, np.ndarray] | None = None

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,  # noqa: N803
        mask_mod: Callable | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Any = None,
        dq_write_order_full: Any = None,
        dq_kv_order: Any = None,
    ) -> BlockMask:
        """Build a mask from the blocks of keys of each row of blocks of queries."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(BOTH.format("kv"))
        q_blocks: tuple = (None, None, None, None)
        if compute_q_blocks:
            full = (None, None)
            if full_kv_num_blocks is not None:
                full = transposed_blocks(full_kv_num_blocks, full_kv_indices)
            q_blocks = (*transposed_blocks(kv_num_blocks, kv_indices), *full)
        sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * sizes[0], kv_indices.shape[-1] * sizes[1])
        is_tensor = isinstance(dq_kv_order, torch.Tensor)
        if dq_kv_order is not None and not is_tensor and not isinstance(dq_kv_order, bool):
            raise ValueError("dq_kv_order must be a bool, Tensor, or None")
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *q_blocks,
            BLOCK_SIZE=sizes, mask_mod=noop_mask if mask_mod is None else mask_mod,
            dq_write_order=dq_write_order, dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order if is_tensor else None,
            dq_kv_order_spt=None if is_tensor else dq_kv_order,
        )  # fmt: skip

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """The attributes; with `flatten` the two pairs are four numbers."""
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        sizes = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        tensors = (getattr(self, name) for name in self._TENSOR_ATTRS)
        return (*lengths, *tensors, self.dq_kv_order_spt, *sizes, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Elements of the dense mask."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Percentage of the elements that lie in absent blocks.

        Blocks that reach over the edge count only with what lies inside.
        """
        total = self.numel()
        if total == 0:
            return 0.0
        present = (self.states() > 0).astype(np.int64)
        rows, columns = present.shape[-2:]
        heights = _inside(rows, self.BLOCK_SIZE[0], self.seq_lengths[0])
        widths = _inside(columns, self.BLOCK_SIZE[1], self.seq_lengths[1])
        computed = int((present * heights[:, None] * widths).sum())
        return 100 * (1 - computed / total)

    def to_dense(self) -> torch.Tensor:
        """1 where a block is present: (B, H, Q, K), int32."""
        partial = blocks_to_dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None:
            return partial
        return partial | blocks_to_dense(self.full_kv_num_blocks, self.full_kv_indices)

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks: solid all present, shaded some, blank none.

        `grid_size` is the largest picture in cells (-1: one cell per block); `limit` is the
        number of (batch, head) pairs shown.
        """
        present = self.states() > 0
        texts = []
        for number, index in enumerate(itertools.product(*map(range, present.shape[:-2]))):
            if number == limit:
                texts += [
                    "...",
                    "To print out more, set BlockMask.to_string(limit=N)",
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or"
                    " head",
                ]
                break
            texts.append(f"{index}\n{picture(present[index], grid_size)}")
        return "\n".join(texts)

    def to(self, device: Any) -> BlockMask:
        """The same mask with its tensors on `device`."""
        moved = {name: getattr(self, name) for name in self._TENSOR_ATTRS}
        moved = {name: None if t is None else t.to(device) for name, t in moved.items()}
        result = BlockMask(
            self.seq_lengths, **moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod,
            dq_kv_order_spt=self.dq_kv_order_spt,
        )  # fmt: skip
        result._blocks_follow_mod = self._blocks_follow_mod
        return result

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """Crop to the upper left corner."""
        if self.dq_kv_order is not None:
            raise NotImplementedError(NO_TENSOR_ORDER.format("Adjusting"))
        rows = ceil_div(new_q_len, self.BLOCK_SIZE[0])
        columns = ceil_div(new_kv_len, self.BLOCK_SIZE[1])
        lists = adjusted_blocks(self.kv_num_blocks, self.kv_indices, rows, columns)
        if self.full_kv_num_blocks is not None:
            lists += adjusted_blocks(self.full_kv_num_blocks, self.full_kv_indices, rows, columns)
        result = self._derived(lists, self.mask_mod, (new_q_len, new_kv_len))
        result._blocks_follow_mod = self._blocks_follow_mod
        return result

    def __getitem__(self, index: Any) -> BlockMask:
        """The blocks at an index of (batch, head, row of blocks); an int keeps its dimension."""
        if self.dq_kv_order is not None:
            raise NotImplementedError(NO_TENSOR_ORDER.format("Slicing"))
        index = index if isinstance(index, tuple) else (index,)
        padded = (*index, slice(None), slice(None), slice(None))[:3]
        sizes = self.kv_num_blocks.shape[:3]
        where = tuple(_kept(i, n) for i, n in zip(padded, sizes, strict=True))
        lists = [self.kv_num_blocks[where], self.kv_indices[where]]
        if self.full_kv_num_blocks is not None:
            lists += [self.full_kv_num_blocks[where], self.full_kv_indices[where]]
        return self._derived(lists, sliced_mask_mod_error, self.seq_lengths)

    def _derived(self, lists: Any, mask_mod: Callable, lengths: tuple[int, int]) -> BlockMask:
        result = self.from_kv_blocks(
            *lists, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=mask_mod, seq_lengths=lengths,
            compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip
        result.dq_kv_order_spt = self.dq_kv_order_spt
        if self.dq_write_order is not None:
            result.add_write_order(self.dq_kv_order_spt)
        return result

    def add_write_order(self, descending: bool | None) -> None:
        """Set the turns in which key blocks add to the gradient of a query block."""
        if self.q_num_blocks is None or self.q_indices is None:
            raise ValueError(
                "BlockMask must have q_num_blocks and q_indices to compute dq_write_order"
            )
        self.dq_write_order, self.dq_write_order_full = dq_write_orders(
            self.to_dense(), self.q_indices, self.full_q_indices, bool(descending)
        )

    def states(self) -> np.ndarray:
        """0 absent, 1 partial, 2 full: (B, H, Q, K), int8; read once per set of lists."""
        lists = (
            self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices
        )  # fmt: skip
        if self._states is not None and all(map(_same, self._states[0], lists)):
            return self._states[1]
        found = blocks_to_dense(self.kv_num_blocks, self.kv_indices).numpy().astype(np.int8)
        if self.full_kv_num_blocks is not None:
            full = blocks_to_dense(self.full_kv_num_blocks, self.full_kv_indices).numpy()
            found = np.where(full > 0, np.int8(2), found)
        self._states = (lists, found)
        return found

    def __str__(self) -> str:
        head = f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n"
        return f"{head}{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        def shape_of(name: str) -> Any:
            tensor = getattr(self, name)
            return None if tensor is None else tensor.shape

        names = self._TENSOR_ATTRS[:8]
        lines = [f"{name}={shape_of(name)}" for name in names]
        mod = getattr(self.mask_mod, "__name__", self.mask_mod)
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}"]
        lines += [f"sparsity={self.sparsity():.2f}%", f"mask_mod={mod}"]
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def _same(a: Any, b: Any) -> bool:
    return a is b


def _inside(blocks: int, size: int, length: int) -> np.ndarray:
    """How many elements of each block lie before `length`."""
    return np.clip(length - np.arange(blocks) * size, 0, size)


def _kept(index: Any, size: int) -> Any:
    """An int as a slice of one."""
    if not isinstance(index, int):
        return index
    return slice(index + size, index + size + 1) if index < 0 else slice(index, index + 1)
