"""torch.return_types: the classes of results with named fields, such as `torch.max(x, 0)`'s."""

from __future__ import annotations

from typing import Any

from rushlight.tensors.results import CLASSES


def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        raise AttributeError(f"module 'torch.return_types' has no attribute '{name}'")
    return CLASSES[name]


def __dir__() -> list[str]:
    return sorted(CLASSES)
