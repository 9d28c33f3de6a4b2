"""Lists of blocks: (counts, index rows) from and to 0/1 matrices.

An index row holds all block numbers: those present first, ascending, then the others.
"""

from __future__ import annotations

import rushlight as torch


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
