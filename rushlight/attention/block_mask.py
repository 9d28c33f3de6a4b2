"""BlockMask: which blocks of a (queries x keys) score matrix a mask leaves anything of.

In: index lists of blocks. Out: counts, pictures, slices, and `states`, which the computation
reads. A block is absent, partial (its mask_mod decides element by element) or full (every element
is kept). Always true: only the first `num_blocks` entries of an index row count.

Shape letters: B batch, H heads, Q blocks of queries, K blocks of keys.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.attention import block_lists, spans
from rushlight.attention.block_picture import pictures
from rushlight.attention.divide import Division
from rushlight.attention.heat import shrunk
from rushlight.attention.own_mods import noop_mask, sliced_mask_mod_error
from rushlight.attention.runs import Rects, Runs
from rushlight.attention.spans import CELL
from rushlight.base.devices import CPU, find_device

DEFAULT_BLOCK_SIZE = 128
BOTH = "full_{0}_num_blocks and full_{0}_indices must be both provided or omitted"
NO_TENSOR_ORDER = (
    "{} BlockMask with tensor dq_kv_order is not supported yet. "
    "Construct a new BlockMask with matching precomputed dq_write_order metadata."
)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


KV_LISTS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
Q_LISTS = ("q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices")


class BlockMask:
    """Block structure of a mask, with the function that decides inside partial blocks.

    Made from lists of blocks, or (create_block_mask) from runs of blocks, which are small; then the
    lists are made when somebody asks for them.
    """

    _TENSOR_ATTRS = (*KV_LISTS, *Q_LISTS, "dq_write_order", "dq_write_order_full", "dq_kv_order")
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
        kv_lists = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        q_lists = (q_num_blocks, q_indices, full_q_num_blocks, full_q_indices)
        self._lists: dict[str, Any] = dict(zip(KV_LISTS, kv_lists, strict=True))
        self._lists |= zip(Q_LISTS, q_lists, strict=True)
        self._set_rest(seq_lengths, BLOCK_SIZE, mask_mod, full_kv_indices is not None)
        self._device = kv_indices.device
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt

    def _set_rest(
        self, lengths: tuple[int, int], size: tuple[int, int], mod: Callable, has_full: bool
    ) -> None:
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = lengths, size, mod
        self.dq_write_order = self.dq_write_order_full = None
        self.dq_kv_order = self.dq_kv_order_spt = None
        # True when mask_mod alone says what is kept, so that blocks need not be looked up.
        self.blocks_follow_mod = False
        self.rows_of: tuple[BlockMask, int] | None = None  # see for_decode
        self._has_full = has_full
        self._device = CPU  # of lists that are made later
        self._cells: Rects | None = None  # finer than the blocks, where they are known
        self._made: dict[Any, Any] = {}  # from the lists; forgotten when they change

    @classmethod
    def from_runs(
        cls, runs: Runs, size: tuple[int, int], mask_mod: Callable, lengths: tuple[int, int],
        has_full: bool = True,
    ) -> BlockMask:  # fmt: skip
        """The lists are made when they are asked for; without `has_full` there are no full ones."""
        result = cls.__new__(cls)
        result._lists = {}
        result._set_rest(lengths, size, mask_mod, has_full)
        result._made["runs"] = runs
        return result

    @classmethod
    def from_division(cls, division: Division, mask_mod: Callable, has_full: bool) -> BlockMask:
        """What divide.py found; without `has_full` all blocks are partial."""
        blocks = division.blocks if has_full else division.blocks.as_partial()
        runs = blocks.runs((*division.shape[:2], *division.grid))
        result = cls.from_runs(runs, division.size, mask_mod, division.shape[2:], has_full)
        result._cells, result.blocks_follow_mod = division.cells, True
        result._device = division.device
        return result

    def __getattr__(self, name: str) -> Any:
        """Lists that are not made yet."""
        if name not in KV_LISTS and name not in Q_LISTS:
            raise AttributeError(f"'BlockMask' object has no attribute '{name}'")
        if name not in self._lists:
            names = KV_LISTS if name in KV_LISTS else Q_LISTS
            runs = self.runs() if name in KV_LISTS else self.runs().transposed()
            states = runs.states()
            with self._device:
                found = [*block_lists.dense_to_blocks(torch.tensor(states == 1)), None, None]
                if self._has_full:
                    found[2:] = block_lists.dense_to_blocks(torch.tensor(states == 2))
            self._lists |= zip(names, found, strict=True)
        return self._lists[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in KV_LISTS and name not in Q_LISTS:
            object.__setattr__(self, name, value)
            return
        if name in KV_LISTS:
            self._cells = None
            for each in KV_LISTS:  # the others are made before the runs are forgotten
                getattr(self, each)
            self._made.clear()
        self._lists[name] = value

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
        sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * sizes[0], kv_indices.shape[-1] * sizes[1])
        is_tensor = isinstance(dq_kv_order, torch.Tensor)
        if dq_kv_order is not None and not is_tensor and not isinstance(dq_kv_order, bool):
            raise ValueError("dq_kv_order must be a bool, Tensor, or None")
        result = cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
            None, None, None, None,
            BLOCK_SIZE=sizes, mask_mod=noop_mask if mask_mod is None else mask_mod,
            dq_write_order=dq_write_order, dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order if is_tensor else None,
            dq_kv_order_spt=None if is_tensor else dq_kv_order,
        )  # fmt: skip
        if compute_q_blocks:
            result._lists = {name: result._lists[name] for name in KV_LISTS}
        return result

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """The attributes; with `flatten` the two pairs are four numbers."""
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        sizes = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        tensors = (getattr(self, name) for name in self._TENSOR_ATTRS)
        return (*lengths, *tensors, self.dq_kv_order_spt, *sizes, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*self._lead(), *self.seq_lengths)

    def _lead(self) -> tuple[int, ...]:
        """What the lists have before blocks: (B, H), or less of it."""
        found = self._lists.get("kv_indices")
        return self.runs().shape[:2] if found is None else tuple(found.shape[:-2])

    def lead(self) -> tuple[int, int]:
        """(B, H)."""
        return (1, 1, *self._lead())[-2:]  # type: ignore[return-value]

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
        return 100 * (1 - self.runs().area(self.BLOCK_SIZE, self.seq_lengths) / total)

    def to_dense(self) -> torch.Tensor:
        """1 where a block is present: (B, H, Q, K), int32."""
        dense = torch.tensor((self.states() > 0).astype(np.int32), device=self._device)
        return dense.reshape(*self._lead(), *dense.shape[2:])

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks: solid all present, shaded some, blank none.

        `grid_size` is the largest picture in cells (-1: one cell per block); `limit` is the
        number of (batch, head) pairs shown.
        """
        present = self.states() > 0
        present = present.reshape(*self._lead(), *present.shape[2:])
        return pictures(present, grid_size, limit)

    def density(self, cells: int = 512, index: tuple[int, int] = (0, 0)) -> np.ndarray:
        """A heat map of one (batch, head): the share of each cell that is computed, at most
        `cells` each way; a partial block counts half. `heat.png_of` makes a picture of it."""
        runs = self.runs()
        row = (index[0] * runs.shape[1] + index[1]) * runs.shape[2]
        band = runs.band(0, runs.shape[3], row, row + runs.shape[2])
        return shrunk(band / 2, cells)

    def to(self, device: Any) -> BlockMask:
        """The same mask with its tensors on `device`."""
        result = copy.copy(self)
        result._device = find_device(device)
        result._made = {"runs": self.runs()}
        result._lists = {
            name: None if tensor is None else tensor.to(device)
            for name, tensor in self._lists.items()
        }
        for name in self._TENSOR_ATTRS[8:]:
            tensor = getattr(self, name)
            setattr(result, name, None if tensor is None else tensor.to(device))
        return result

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """Crop to the upper left corner."""
        if self.dq_kv_order is not None:
            raise NotImplementedError(NO_TENSOR_ORDER.format("Adjusting"))
        rows = ceil_div(new_q_len, self.BLOCK_SIZE[0])
        columns = ceil_div(new_kv_len, self.BLOCK_SIZE[1])
        runs = block_lists.rows_at(self.runs(), (slice(None), slice(None), slice(rows))).cropped(
            columns
        )
        result = self._derived(runs, self.mask_mod, (new_q_len, new_kv_len))
        result.blocks_follow_mod = self.blocks_follow_mod
        return result

    def __getitem__(self, index: Any) -> BlockMask:
        """The blocks at an index of (batch, head, row of blocks); an int keeps its dimension."""
        if self.dq_kv_order is not None:
            raise NotImplementedError(NO_TENSOR_ORDER.format("Slicing"))
        index = index if isinstance(index, tuple) else (index,)
        padded = (*index, slice(None), slice(None), slice(None))[:3]
        return self._derived(
            block_lists.rows_at(self.runs(), padded), sliced_mask_mod_error, self.seq_lengths
        )

    def for_decode(self, offset: int, q_len: int = 1, kv_len: int | None = None) -> BlockMask:
        """The mask of queries offset ... offset + q_len - 1, which count from 0 in it, for the
        first `kv_len` keys. Nothing is evaluated again; `offset` is an input of programs, so a
        growing cache makes no new ones.

        Example:
            >>> from rushlight.attention import create_block_mask
            >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 512, 512)
            >>> mask.for_decode(300, kv_len=301).shape
            (1, 1, 1, 301)
        """
        queries, keys = self.seq_lengths
        kv_len = keys if kv_len is None else kv_len
        if offset < 0 or q_len < 0 or offset + q_len > queries or not 0 <= kv_len <= keys:
            raise ValueError(
                f"for_decode: queries {offset} ... {offset + q_len - 1} and {kv_len} keys do not "
                f"lie in a mask for {queries} queries and {keys} keys"
            )
        cells = self.made("cells", self._cell_runs)
        runs = spans.cells_of_rows(cells, offset, q_len, ceil_div(kv_len, CELL))
        mod = self.mask_mod
        result = self.from_runs(
            runs, (CELL, CELL), lambda b, h, q_idx, kv_idx: mod(b, h, q_idx + offset, kv_idx),
            (q_len, kv_len),
        )  # fmt: skip
        result.blocks_follow_mod, result._device = self.blocks_follow_mod, self._device
        # Where blocks count beside mask_mod, those of the whole mask do.
        result.rows_of = None if self.blocks_follow_mod else (self, offset)
        return result

    def _cell_runs(self, turned: bool = False) -> Runs:
        """Runs of cells, of keys first when `turned`."""
        if self._cells is None:
            return spans.cells_of_blocks(self.runs(), self.BLOCK_SIZE, self.seq_lengths, turned)
        return spans.cells_of_rects(self._cells, self.runs().shape[:2], self.seq_lengths, turned)

    def _derived(self, runs: Runs, mask_mod: Callable, lengths: tuple[int, int]) -> BlockMask:
        result = self.from_runs(runs, self.BLOCK_SIZE, mask_mod, lengths, self._has_full)
        if self._lists.get("q_indices", self) is None:
            result._lists |= dict.fromkeys(Q_LISTS)
        result.dq_kv_order_spt, result._device = self.dq_kv_order_spt, self._device
        if self.dq_write_order is not None:
            result.add_write_order(self.dq_kv_order_spt)
        return result

    def add_write_order(self, descending: bool | None) -> None:
        """Set the turns in which key blocks add to the gradient of a query block."""
        if self.q_num_blocks is None or self.q_indices is None:
            raise ValueError(
                "BlockMask must have q_num_blocks and q_indices to compute dq_write_order"
            )
        self.dq_write_order, self.dq_write_order_full = block_lists.dq_write_orders(
            self.to_dense(), self.q_indices, self.full_q_indices, bool(descending)
        )

    # ---- what the computation reads ------------------------------------------------------

    def runs(self) -> Runs:
        """The blocks as runs; read once per set of lists."""
        if "runs" not in self._made:
            self._made["runs"] = block_lists.runs_of_lists(
                *(getattr(self, name) for name in KV_LISTS)
            )
        return self._made["runs"]

    def states(self) -> np.ndarray:
        """0 absent, 1 partial, 2 full: (B, H, Q, K), int8."""
        return self.runs().states()

    def state_tensor(self, device: Any) -> torch.Tensor:
        """The states as a tensor, made once."""
        return self.made(("states", device), lambda: torch.tensor(self.states(), device=device))

    def made(self, key: Any, make: Callable[[], Any]) -> Any:
        """Something that depends on the blocks only, made once."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def keeps_all(self) -> bool:
        """Is every block full?"""
        return self.made("keeps_all", lambda: self.runs().keep_all())

    def tables(self, device: Any = CPU, of_keys: bool = True) -> list[torch.Tensor]:
        """Spans of tiles for blocks of queries, and for blocks of keys: see ops/pairs [tables]."""
        return [*self._spans(False, device), *(self._spans(True, device) if of_keys else ())]

    def _spans(self, turned: bool, device: Any) -> list[torch.Tensor]:
        def make() -> list[torch.Tensor]:
            tables = spans.spans_of(self._cell_runs(turned))
            return [torch.tensor(table, device=device) for table in tables]

        return self.made((turned, device), make)

    def __str__(self) -> str:
        head = f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n"
        return f"{head}{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        def shape_of(name: str) -> Any:
            if name in self._lists:
                return None if self._lists[name] is None else self._lists[name].shape
            rows, columns = self.runs().shape[2:][:: 1 if name in KV_LISTS else -1]
            last = (rows, columns) if name.endswith("indices") else (rows,)
            has = self._has_full or not name.startswith("full")
            return torch.Size((*self._lead(), *last)) if has else None

        names = self._TENSOR_ATTRS[:8]
        lines = [f"{name}={shape_of(name)}" for name in names]
        mod = getattr(self.mask_mod, "__name__", self.mask_mod)
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}"]
        lines += [f"sparsity={self.sparsity():.2f}%", f"mask_mod={mod}"]
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"
