"""What writes and reads the items of plans."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

from rushlight.distributed.checkpoint.metadata import Metadata, MetadataIndex
from rushlight.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = ["WriteResult", "StorageWriter", "StorageReader"]


@dataclass(frozen=True)
class WriteResult:
    """Where an item was written."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes a checkpoint."""

    @abc.abstractmethod
    def reset(self, checkpoint_id: Any = None) -> None:
        """A new checkpoint begins, at this place when one is given."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Called before plans are made."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """The plan of this process, with what the storage adds."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """The plans of all."""

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        """Write the items; a future of WriteResults."""

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata."""

    def storage_meta(self) -> Any:
        """What is known of the storage."""
        return None


class StorageReader(abc.ABC):
    """Reads a checkpoint."""

    @abc.abstractmethod
    def reset(self, checkpoint_id: Any = None) -> None:
        """A new reading begins, of this place when one is given."""

    @abc.abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The metadata."""

    @abc.abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Called before plans are made."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan of this process, with what the storage adds."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans of all."""

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        """Read the items; a future."""
