"""torch.strided and the memory formats: names only, a tensor's memory is always row-major."""

from __future__ import annotations


class Layout:
    """torch.strided, the only layout."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class MemoryFormat(Layout):
    """torch.contiguous_format and the others; a tensor's memory is always row-major."""


strided = Layout("strided")
contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")
