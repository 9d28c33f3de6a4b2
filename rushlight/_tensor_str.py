"""torch._tensor_str: how tensors become text, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from rushlight.tensors.printing import OPTIONS, set_printoptions, tensor_repr, tensor_text

__all__ = ["PRINT_OPTS", "set_printoptions"]
PRINT_OPTS = OPTIONS


def _tensor_str(self: Any, indent: int) -> str:
    """The numbers; lines after the first are indented."""
    return tensor_text(self, indent)


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """What `repr` gives."""
    return tensor_repr(self, tensor_contents=tensor_contents)
