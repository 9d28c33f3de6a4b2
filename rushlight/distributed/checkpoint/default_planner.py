"""The usual planners: a state dict is flattened, each value is one item."""

from __future__ import annotations

import io
from typing import Any

import rushlight as torch
from rushlight.distributed.checkpoint.flatten import Path, flatten_state_dict, set_element
from rushlight.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from rushlight.distributed.tensor.dtensor import DTensor, plain
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = [
    "DefaultSavePlanner", "DefaultLoadPlanner", "create_default_local_load_plan",
    "create_default_global_load_plan", "create_default_local_save_plan",
    "create_default_global_save_plan",
]  # fmt: skip
VERSION = "1.0.0"


def _part(value: Any) -> Any:
    """This process's part of a tensor."""
    return plain(value) if isinstance(value, DTensor) else value


def _write_item(name: str, value: Any) -> WriteItem:
    if not isinstance(value, torch.Tensor):
        return WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO)
    size = torch.Size(value.shape)
    start = torch.Size([0] * value.dim())
    data = TensorWriteData(
        ChunkStorageMetadata(start, size), TensorProperties.create_from_tensor(_part(value)), size
    )
    kind = WriteItemType.SHARD if isinstance(value, DTensor) else WriteItemType.TENSOR
    return WriteItem(MetadataIndex(name, start), kind, tensor_data=data)


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """An item for each value."""
    return SavePlan([_write_item(name, value) for name, value in state_dict.items()])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """The plans with the metadata of all their items."""
    found: dict[str, Any] = {}
    for item in (item for plan in all_plans for item in plan.items):
        data = item.tensor_data
        if data is None:
            found[item.index.fqn] = BytesStorageMetadata()
        else:
            new = TensorStorageMetadata(data.properties, data.size, [])
            found.setdefault(item.index.fqn, new).chunks.append(data.chunk)
    return all_plans, Metadata(found)


class DefaultSavePlanner(SavePlanner):
    """Writes all values. flatten_state_dict: values of nested dicts are values of their own."""

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None, dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict = flatten_state_dict
        self.state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Path] = {}

    def set_up_planner(
        self, state_dict: Any, storage_meta: Any = None, is_coordinator: bool = False
    ) -> None:
        self.is_coordinator = is_coordinator
        self.state_dict = dict(state_dict)
        if self.flatten_state_dict:
            self.state_dict, paths = flatten_state_dict(state_dict)
            self.mappings = {
                name: tuple(key if isinstance(key, int) and _in_list(state_dict, path[:at])
                            else str(key) for at, key in enumerate(path))
                for name, path in paths.items()
            }  # fmt: skip

    def create_local_plan(self) -> SavePlan:
        made = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        return SavePlan(made.items, planner_data=self.mappings)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans, metadata = create_default_global_save_plan(all_plans)
        metadata.planner_data = {k: v for plan in all_plans for k, v in
                                 (plan.planner_data or {}).items()}  # fmt: skip
        metadata.version = VERSION
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        return new_plan

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value of this name."""
        return _part(self.state_dict[index.fqn])

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written of it."""
        if write_item.type is WriteItemType.BYTE_IO:
            data = io.BytesIO()
            torch.save(object, data)
            return data
        return object

    def resolve_data(self, write_item: WriteItem) -> Any:
        return self.transform_object(write_item, self.lookup_object(write_item.index))


def _in_list(root: Any, path: Path) -> bool:
    for key in path:
        root = root[key]
    return isinstance(root, list)


def create_default_local_load_plan(
    state_dict: dict[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """An item for each value of the state dict. strict: all must be in the checkpoint."""
    items = []
    for name, value in state_dict.items():
        found = metadata.state_dict_metadata.get(name)
        if found is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        if isinstance(found, TensorStorageMetadata) and isinstance(value, torch.Tensor):
            if tuple(found.size) != tuple(value.shape):
                raise ValueError(
                    f"Size mismatch between saved {found.size} and current: "
                    f"{torch.Size(value.shape)} for {name}"
                )
            items += [_read_tensor(name, chunk) for chunk in found.chunks]
        else:
            index, none = MetadataIndex(name), torch.Size([0])
            items.append(ReadItem(LoadItemType.BYTE_IO, index, none, index, none, none))
    return LoadPlan(items)


def _read_tensor(name: str, chunk: ChunkStorageMetadata) -> ReadItem:
    index = MetadataIndex(name, chunk.offsets)
    start = torch.Size([0] * len(chunk.sizes))
    return ReadItem(LoadItemType.TENSOR, index, chunk.offsets, index, start, chunk.sizes)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The plans as they are."""
    return all_plans


class DefaultLoadPlanner(LoadPlanner):
    """Reads all values of the state dict, tensors in place.

    allow_partial_load: what the checkpoint does not have stays as it is.
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict, self.allow_partial_load = flatten_state_dict, allow_partial_load

    def set_up_planner(
        self, state_dict: Any, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        self.original_state_dict, self.metadata = state_dict, metadata
        self.state_dict, self.mappings = state_dict, {}
        if self.flatten_state_dict:
            self.state_dict, self.mappings = flatten_state_dict(state_dict)

    def create_local_plan(self) -> LoadPlan:
        if self.metadata is None:
            raise AssertionError("create_local_plan: set_up_planner was not given metadata")
        strict = not self.allow_partial_load
        return create_default_local_load_plan(self.state_dict, self.metadata, strict)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put a value that is no tensor in its place. Unlike PyTorch's, this runs nothing: classes
        of your own are allowed by torch.serialization.add_safe_globals."""
        name = read_item.dest_index.fqn
        loaded = torch.load(value, weights_only=True)
        self.state_dict[name] = loaded
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)

    def lookup_tensor(self, index: MetadataIndex) -> Any:
        """The tensor of this name."""
        return _part(self.state_dict[index.fqn])

    def resolve_tensor(self, read_item: ReadItem) -> Any:
        found = self.lookup_tensor(read_item.dest_index).detach()
        pairs = zip(read_item.dest_offsets, read_item.lengths, strict=True)
        return found[tuple(slice(start, start + size) for start, size in pairs)]

    def commit_tensor(self, read_item: ReadItem, tensor: Any) -> None:
        """The tensor was read in place."""
