"""Names that packages take from PyTorch's tracer to index tensors by tensors inside `vmap`."""

from __future__ import annotations

__all__ = [
    "TransformGetItemToIndex",
]  # fmt: skip


class TransformGetItemToIndex:
    """A context that changes nothing: `x[i]` by a tensor is an op here, it looks at no value."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None
