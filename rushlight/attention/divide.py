"""A mask_mod as rectangles of blocks: found by halving, looked at element by element at need.

In: a mask_mod, the shape (B, H, Q_LEN, KV_LEN), the size of blocks, the device of what it captured.
Out: rectangles of full and partial blocks, and the same in cells of CELL x CELL elements for what a
kernel reads. A box of blocks that interval analysis shows to be kept or left out whole is done;
others are halved. Only blocks about which it knows too little are evaluated, a few at a time: never
the dense mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as torch
from rushlight import ops
from rushlight.attention.interval_rules import Truth
from rushlight.attention.intervals import Analysis
from rushlight.attention.runs import Rects, joined_rects
from rushlight.attention.spans import CELL
from rushlight.base.devices import find_device
from rushlight.ir.device import device_of
from rushlight.ir.node import Node
from rushlight.tensors.apply import apply

ELEMENTS_AT_ONCE = 1 << 22
BOXES_AT_ONCE = 1 << 18
WORTH_ANALYSIS = 1 << 20  # elements; smaller masks are evaluated at once
Shape = tuple[int, int, int, int]
KEPT, LEFT_OUT, MIXED, UNKNOWN = range(4)


class Division:
    """Of one mask. `blocks`: rectangles of blocks; `cells`: of cells, None if blocks are not made
    of whole ones."""

    def __init__(
        self, mask_mod: Callable, shape: Shape, size: tuple[int, int], device: Any = None
    ) -> None:
        self.mask_mod, self.shape, self.size = mask_mod, shape, size
        self.device = find_device(device)
        self.grid = (-(-shape[2] // size[0]), -(-shape[3] // size[1]))
        self.has_cells = size[0] % CELL == 0 and size[1] % CELL == 0
        self.piece = (CELL, CELL) if self.has_cells else size
        self._blocks: list[Rects] = []
        self._cells: list[Rects] = []
        self.analysis: Analysis | None = None
        if 0 not in shape:
            root = self._graph()
            if device is None:  # that of what the mask captured
                self.device = find_device(device_of(root))
            if math.prod(shape) >= WORTH_ANALYSIS:
                self.analysis = Analysis(root)
            with self.device:
                self._divide()

    def _graph(self) -> Node:
        """The mask as a value of pairs. No tensor of it stays alive, so nobody computes it."""
        where = [apply(ops.pair_index, (self.shape, dim)) for dim in range(4)]
        with self.device:
            mask = as_four_dims(self.mask_mod(*where), self.shape, "mask_mod")
        if mask.dtype is not torch.bool:
            raise AssertionError(f"mask.dtype must be torch.bool, got {mask.dtype}")
        return mask._value()

    @property
    def blocks(self) -> Rects:
        return joined_rects(self._blocks) if self._blocks else _rects(np.zeros((0, 5)), True)

    @property
    def cells(self) -> Rects | None:
        if not self.has_cells:
            return None
        return joined_rects(self._cells) if self._cells else _rects(np.zeros((0, 5)), True)

    def _divide(self) -> None:
        """Boxes are rows (lead, r0, c0, span) in blocks."""
        span = 1 << (max(self.grid) - 1).bit_length()
        lead = np.arange(self.shape[0] * self.shape[1])
        pending = [np.stack((lead, 0 * lead, 0 * lead, 0 * lead + span), axis=1)]
        while pending:
            boxes = pending.pop()
            if len(boxes) > BOXES_AT_ONCE:
                pending += np.array_split(boxes, -(-len(boxes) // BOXES_AT_ONCE))
                continue
            kinds = self._kinds(boxes)
            self._keep(boxes[kinds == KEPT])
            single = boxes[:, 3] == 1
            self._mix(boxes[single & (kinds == MIXED)])
            self._look(boxes[single & (kinds == UNKNOWN)])
            rest = boxes[~single & (kinds >= MIXED)]
            if len(rest):
                pending.append(self._halved(rest))

    def _kinds(self, boxes: np.ndarray) -> np.ndarray:
        if self.analysis is None:
            return np.full(len(boxes), UNKNOWN)
        lead, r0, c0, span = boxes.T
        ends = (r0 + span) * self.size[0], (c0 + span) * self.size[1]
        return self._truth(lead, (r0 * self.size[0], ends[0]), (c0 * self.size[1], ends[1]))

    def _truth(self, lead: np.ndarray, rows: tuple, columns: tuple) -> np.ndarray:
        """The kinds of boxes of elements, clipped to the mask."""
        assert self.analysis is not None
        b, h = (x.astype(np.float64) for x in np.divmod(lead, self.shape[1]))
        (q0, q1), (k0, k1) = rows, columns
        q1, k1 = np.minimum(q1, self.shape[2]) - 1.0, np.minimum(k1, self.shape[3]) - 1.0
        boxes = [(b, b), (h, h), (q0.astype(np.float64), q1), (k0.astype(np.float64), k1)]
        return _kind_of(self.analysis.on(boxes))

    def _halved(self, boxes: np.ndarray) -> np.ndarray:
        """Four children each; those outside of the grid are dropped."""
        lead, r0, c0, span = boxes.T
        half = span // 2
        children = [
            np.stack((lead, r0 + i * half, c0 + j * half, half), axis=1)
            for i in (0, 1)
            for j in (0, 1)
        ]
        found = np.concatenate(children)
        return found[(found[:, 1] < self.grid[0]) & (found[:, 2] < self.grid[1])]

    # ---- what was found ------------------------------------------------------------------

    def _keep(self, boxes: np.ndarray) -> None:
        """Kept whole. A block that reaches over the edge counts as partial; its cells do not."""
        if not len(boxes):
            return
        lead, r0, c0, span = boxes.T
        r1, c1 = np.minimum(r0 + span, self.grid[0]), np.minimum(c0 + span, self.grid[1])
        rows, columns = (n // s for n, s in zip(self.shape[2:], self.size, strict=True))
        whole = np.stack((lead, r0, np.minimum(r1, rows), c0, np.minimum(c1, columns)), axis=1)
        below = np.stack((lead, np.maximum(r0, rows), r1, c0, c1), axis=1)
        right = np.stack((lead, r0, np.minimum(r1, rows), np.maximum(c0, columns), c1), axis=1)
        self._blocks += [_rects(whole, True), _rects(below, False), _rects(right, False)]
        if self.has_cells:
            box = _rects(np.stack((lead, r0, r1, c0, c1), axis=1), True)
            self._cells.append(box.scaled(*self._per_block))

    @property
    def _per_block(self) -> tuple[int, int]:
        return self.size[0] // CELL, self.size[1] // CELL

    def _mix(self, boxes: np.ndarray) -> None:
        """Partial blocks; their cells are asked about."""
        if not len(boxes):
            return
        lead, r0, c0, _ = boxes.T
        self._blocks.append(_rects(np.stack((lead, r0, r0 + 1, c0, c0 + 1), axis=1), False))
        if not self.has_cells:
            return
        high, wide = self._per_block
        i, j = (x.ravel() for x in np.meshgrid(np.arange(high), np.arange(wide), indexing="ij"))
        lead, r, c = (
            np.repeat(lead, high * wide),
            (r0[:, None] * high + i).ravel(),
            (c0[:, None] * wide + j).ravel(),
        )
        inside = (r * CELL < self.shape[2]) & (c * CELL < self.shape[3])
        lead, r, c = lead[inside], r[inside], c[inside]
        kinds = self._truth(lead, (r * CELL, (r + 1) * CELL), (c * CELL, (c + 1) * CELL))
        cells = np.stack((lead, r, r + 1, c, c + 1), axis=1)
        self._cells += [_rects(cells[kinds == KEPT], True), _rects(cells[kinds >= MIXED], False)]

    def _look(self, boxes: np.ndarray) -> None:
        """Blocks that are evaluated."""
        step = max(1, ELEMENTS_AT_ONCE // (self.size[0] * self.size[1]))
        for start in range(0, len(boxes), step):
            part = boxes[start : start + step]
            self._note_counts(part, self._counts(part))

    def _note_counts(self, boxes: np.ndarray, counts: np.ndarray) -> None:
        """counts: kept elements of each piece of each block (n, rows, columns)."""
        lead, r0, c0, _ = boxes.T
        total, area = counts.sum((1, 2)), self.size[0] * self.size[1]
        blocks = np.stack((lead, r0, r0 + 1, c0, c0 + 1), axis=1)
        self._blocks += [
            _rects(blocks[total == area], True),
            _rects(blocks[(total > 0) & (total < area)], False),
        ]
        if self.has_cells:
            high, wide = self._per_block
            block, i, j = np.nonzero(counts)
            r, c = r0[block] * high + i, c0[block] * wide + j
            room = [
                np.clip(n - x * CELL, 0, CELL) for n, x in zip(self.shape[2:], (r, c), strict=True)
            ]
            full = counts[block, i, j] == room[0] * room[1]
            cells = np.stack((lead[block], r, r + 1, c, c + 1), axis=1)
            self._cells += [_rects(cells[full], True), _rects(cells[~full], False)]

    def _counts(self, boxes: np.ndarray) -> np.ndarray:
        """Kept elements of the pieces of some blocks."""
        rows, columns = self.size
        count = len(boxes)
        # Few different numbers of blocks, so that few programs are made.
        padded = np.concatenate(
            (boxes, boxes[:1].repeat((1 << (count - 1).bit_length()) - count, 0))
        )
        shape = (len(padded), 1, rows, columns)
        number, _, i, j = (apply(ops.pair_index, (shape, dim)) for dim in range(4))
        b, h = np.divmod(padded[:, 0], self.shape[1])
        b, h, r0, c0 = (
            torch.tensor(x.astype(np.int64))[number]
            for x in (b, h, padded[:, 1] * rows, padded[:, 2] * columns)
        )
        q, kv = r0 + i, c0 + j
        inside = (q < self.shape[2]) & (kv < self.shape[3])
        q, kv = q.clamp(max=self.shape[2] - 1), kv.clamp(max=self.shape[3] - 1)
        mask = as_four_dims(self.mask_mod(b, h, q, kv), shape, "mask_mod") & inside
        high, wide = rows // self.piece[0], columns // self.piece[1]
        cut = mask.reshape(len(padded), high, self.piece[0], wide, self.piece[1])
        return cut.to(torch.int32).sum(dim=(2, 4)).cpu().numpy()[:count]


def _kind_of(truth: Truth) -> np.ndarray:
    kinds = np.where(truth.mixed, MIXED, UNKNOWN)
    kinds = np.where(truth.can_fail, kinds, KEPT)
    return np.where(truth.can_hold, kinds, LEFT_OUT)


def _rects(rows: np.ndarray, full: bool) -> Rects:
    """From rows (lead, r0, r1, c0, c1); empty ones are dropped."""
    rows = rows[(rows[:, 1] < rows[:, 2]) & (rows[:, 3] < rows[:, 4])].astype(np.int64)
    return Rects(*rows.T, np.full(len(rows), full))


def as_four_dims(result: Any, shape: tuple[int, ...], what: str) -> torch.Tensor:
    """What a mod returned, broadcast to (B, H, L, S)."""
    result = result if isinstance(result, torch.Tensor) else torch.tensor(result)
    if result.dim() > 4:
        raise ValueError(
            f"{what} must return one value per (b, h, q_idx, kv_idx), got shape "
            f"{tuple(result.shape)} for {shape}; a captured tensor is indexed by all its indices: "
            "table[b, q_idx]"
        )
    return result.expand(shape)
