"""What a checkpoint says of itself: for each value its kind, its size, and where its bytes are.

The records have PyTorch's names and states, so that `.metadata` files go both ways.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import rushlight as torch
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = [
    "ChunkStorageMetadata", "TensorStorageMetadata", "BytesStorageMetadata", "Metadata",
    "MetadataIndex", "TensorProperties", "StorageMeta",
]  # fmt: skip


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: where it begins, how large it is."""

    offsets: Any
    sizes: Any


class _MEM_FORMAT_ENCODING(enum.Enum):  # noqa: N801  (PyTorch's name, which files have)
    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {
    _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT: torch.contiguous_format,
    _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST: torch.channels_last,
    _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT: torch.preserve_format,
}


@dataclass
class TensorProperties:
    """What a tensor is made with."""

    dtype: Any = field(default_factory=torch.get_default_dtype)
    layout: Any = torch.strided
    requires_grad: bool = False
    memory_format: Any = torch.contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple[Any, ...]:
        code = next(code for code, kind in _FORMATS.items() if kind == self.memory_format)
        return self.dtype, self.layout, self.requires_grad, code, self.pin_memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype, self.layout, self.requires_grad, code, self.pin_memory = state
        self.memory_format = _FORMATS[code]

    @staticmethod
    def create_from_tensor(tensor: Any) -> TensorProperties:
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor: its size, and its parts."""

    properties: TensorProperties
    size: Any
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value that is no tensor."""


@dataclass
class StorageMeta:
    """Where the checkpoint is, and when it was written."""

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """The whole of `.metadata`. planner_data: the path in the nested dict of each flat key."""

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """The name of a value, and which part of it is meant. `index` is a hint, not compared."""

    fqn: str
    offset: Any = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None):
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "offset", None if offset is None else torch.Size(offset))
