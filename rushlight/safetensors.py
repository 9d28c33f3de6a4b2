"""The names of the `safetensors` package: files that run no code when they are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rushlight.serialization import safetensors

__all__ = ["load_file", "save_file"]


def save_file(
    tensors: Mapping[str, Any],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write named tensors; the metadata is what is given and nothing else."""
    safetensors.save_file(tensors, filename, metadata, is_checked=False)


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Any]:
    """Read the named tensors of a file."""
    return safetensors.load_file(filename, device)
