"""Layouts and memory formats: names only, a tensor's memory is always strided and row-major.

The sparse layouts are here to be named in a program, and refused where one asks for them.
"""

from __future__ import annotations


class Layout:
    """torch.strided, the only layout that tensors have, and the names of the sparse ones."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class MemoryFormat(Layout):
    """torch.contiguous_format and the others; a tensor's memory is always row-major."""


strided = Layout("strided")
sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc = (
    Layout(f"sparse_{kind}") for kind in ("coo", "csr", "csc", "bsr", "bsc")
)
contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")
