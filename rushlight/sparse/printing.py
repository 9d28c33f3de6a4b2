"""repr of sparse tensors, as PyTorch prints them."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.sparse.tensor import SparseTensor

PARTS = {
    "coo": ("indices",), "csr": ("crow_indices", "col_indices"),
    "csc": ("ccol_indices", "row_indices"), "bsr": ("crow_indices", "col_indices"),
    "bsc": ("ccol_indices", "row_indices"),
}  # fmt: skip
WIDTH = 80


def text(x: SparseTensor, *, tensor_contents: Any = None) -> str:
    """tensor(indices=..., values=..., size=(2, 3), nnz=3, layout=torch.sparse_coo)."""
    parts = zip(PARTS[x.kind], x.index, strict=True)
    lines = [_part(name, part) for name, part in parts] + [_part("values", x.vals)]
    end = [f"size={tuple(x._shape)}", f"nnz={x._nnz()}"]
    if x.dtype not in (torch.get_default_dtype(), torch.int64, torch.bool):
        end.append(f"dtype={x.dtype}")
    end.append(f"layout={x.layout}")
    if x.grad_fn is not None:
        end.append(f"grad_fn=<{type(x.grad_fn).__name__}>")
    elif x.requires_grad:
        end.append("requires_grad=True")
    return "tensor(" + ",\n       ".join(lines) + _ending(x, lines[-1], end) + ")"


def _part(name: str, value: Any) -> str:
    """A tensor below its name, without its dtype."""
    plain = value.detach()
    if plain.numel() == 0:
        return f"{name}=tensor([], size={tuple(plain.shape)})"
    if plain.is_floating_point():
        plain = plain.to(torch.get_default_dtype())
    start = f"{name}=tensor("
    return start + torch._tensor_str._tensor_str(plain, len("tensor(") + len(start)) + ")"


def _ending(x: SparseTensor, last: str, end: list[str]) -> str:
    """The properties, in lines of at most 80 characters."""
    found, length = "", len(last.rpartition("\n")[2]) + 9
    for i, item in enumerate(end):
        on_new_line = (i == 0 and x.kind == "coo") or length + len(item) + 2 > WIDTH
        found += (",\n       " if on_new_line else ", ") + item
        length = (7 if on_new_line else length + 2) + len(item)
    return found
