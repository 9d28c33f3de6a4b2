"""Plans: what is written or read, as items. A planner makes them, a storage carries them out."""

from __future__ import annotations

import abc
import enum
import io
from dataclasses import dataclass
from typing import Any

from rushlight.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
)
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = [
    "WriteItemType", "LoadItemType", "BytesIOWriteData", "TensorWriteData", "WriteItem", "ReadItem",
    "SavePlan", "LoadPlan", "SavePlanner", "LoadPlanner",
]  # fmt: skip


class WriteItemType(enum.Enum):
    """A tensor, a part of one, or the bytes of another value."""

    TENSOR, SHARD, BYTE_IO = 1, 2, 3


class LoadItemType(enum.Enum):
    """A tensor, or the bytes of another value."""

    TENSOR, BYTE_IO = 1, 2


@dataclass(frozen=True)
class BytesIOWriteData:
    """How many bytes."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A part of a tensor."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Any


@dataclass(frozen=True)
class WriteItem:
    """One thing to write."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None


@dataclass(frozen=True)
class ReadItem:
    """One thing to read, and where it goes."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Any
    storage_index: MetadataIndex
    storage_offsets: Any
    lengths: Any


@dataclass(frozen=True)
class SavePlan:
    """What one process writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What one process reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what of a state dict is written."""

    @abc.abstractmethod
    def set_up_planner(
        self, state_dict: Any, storage_meta: Any = None, is_coordinator: bool = False
    ) -> None:
        """Called first."""

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this process writes."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """The plans of all processes made to fit, and the metadata."""

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """The last word on this process's plan."""

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Any:
        """The tensor or the io.BytesIO of an item."""


class LoadPlanner(abc.ABC):
    """Decides what is read into a state dict."""

    @abc.abstractmethod
    def set_up_planner(
        self, state_dict: Any, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Called first."""

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this process reads."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """The plans of all processes made to fit."""

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """The last word on this process's plan."""

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take the bytes of a value that is no tensor."""

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Any:
        """The tensor that what is read goes into."""

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Any) -> None:
        """Called when that tensor has its values."""
