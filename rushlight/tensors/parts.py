"""For work that is cut in parts to save memory: its inputs, and the end of a part."""

from __future__ import annotations

from rushlight.base.config import config
from rushlight.engine.realize import flush
from rushlight.tensors.tensor import Tensor


def own_memory(tensor: Tensor) -> Tensor:
    """For what reads a tensor many times: a copy where others may write to its memory, since that
    is read anew at each use; else the tensor itself."""
    return tensor if tensor._storage.foreign is None else tensor.clone()


def flush_part() -> None:
    """Compute what waits, so that what it needed is gone before the next part. Panels of a weight
    that all parts read would be as large as it is, so none stay (runtime/packed.py)."""
    with config.override(packed_weights_mb=0):
        flush()
