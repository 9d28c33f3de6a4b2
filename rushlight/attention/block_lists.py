"""Lists of blocks: (counts, index rows) from and to 0/1 matrices.

An index row holds all block numbers: those present first, ascending, then the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as torch
from rushlight.attention.runs import Runs, runs_of
from rushlight.base.devices import CPU


def dense_to_blocks(dense: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(..., rows, columns) of 0/1 -> counts (..., rows) and indices (..., rows, columns)."""
    dense = dense.to(torch.int32)
    if dense.numel() == 0:
        return dense.sum(-1).to(torch.int32), dense
    order = torch.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(torch.int32), order.to(torch.int32)


def blocks_to_dense(num_blocks: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The inverse of `dense_to_blocks`."""
    columns = indices.shape[-1]
    if indices.numel() == 0:
        return torch.zeros(indices.shape, dtype=torch.int32)
    counted = torch.arange(columns, dtype=torch.int32) < num_blocks.unsqueeze(-1)
    # What does not count goes to one column more, which is cut off.
    place = torch.where(counted, indices, columns).to(torch.int64)
    dense = torch.zeros((*indices.shape[:-1], columns + 1), dtype=torch.int32)
    return dense.scatter(-1, place, 1)[..., :columns]


def runs_of_lists(counts: Any, indices: Any, full_counts: Any, full_indices: Any) -> Runs:
    """Partial blocks and full ones, if there are any, as runs of (B, H, Q, K)."""
    with CPU:
        states = blocks_to_dense(counts.cpu(), indices.cpu()).numpy().astype(np.int8)
        if full_counts is not None:
            full = blocks_to_dense(full_counts.cpu(), full_indices.cpu()).numpy()
            states = np.where(full > 0, np.int8(2), states)
    lead = (1, 1, *states.shape[:-2])[-2:]
    return runs_of(states.reshape(*lead, *states.shape[-2:]))


def rows_at(runs: Runs, index: tuple[Any, Any, Any]) -> Runs:
    """Rows of blocks at an index of (B, H, Q); an int keeps its dimension."""
    numbers = np.arange(runs.rows).reshape(runs.shape[:3])
    where = tuple(_kept(i, n) for i, n in zip(index, numbers.shape, strict=True))
    found = numbers[where]
    return runs.take(found.ravel(), (*found.shape, runs.shape[3]))


def _kept(index: Any, size: int) -> Any:
    """An int as a slice of one."""
    if not isinstance(index, int):
        return index.cpu().numpy() if isinstance(index, torch.Tensor) else index
    return slice(index + size, index + size + 1) if index < 0 else slice(index, index + 1)


def dq_write_orders(
    dense: torch.Tensor,
    q_indices: torch.Tensor,
    full_q_indices: torch.Tensor | None,
    descending: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """When key block n may add to query block m: how many blocks of row m come before it."""
    before = dense.cumsum(-1) - dense
    rank = dense.sum(-1, keepdim=True) - 1 - before if descending else before
    rank = rank.transpose(-2, -1)

    def turns(indices: torch.Tensor) -> torch.Tensor:
        return torch.gather(rank, -1, indices.to(torch.int64)).to(torch.int32)

    return turns(q_indices), None if full_q_indices is None else turns(full_q_indices)
