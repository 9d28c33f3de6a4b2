"""`torch.distributed.checkpoint`: state dicts written into folders; see ../README.md."""

from rushlight.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from rushlight.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from rushlight.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
)
from rushlight.distributed.checkpoint.run import (
    CheckpointException,
    async_save,
    load,
    load_sharded_optimizer_state_dict,
    load_state_dict,
    save,
    save_state_dict,
)
from rushlight.distributed.checkpoint.storage import StorageReader, StorageWriter
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner",
    "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "LoadPlan", "LoadPlanner",
    "Metadata", "ReadItem", "SavePlan", "SavePlanner", "StorageReader", "StorageWriter",
    "TensorStorageMetadata", "WriteItem", "async_save", "load",
    "load_sharded_optimizer_state_dict", "load_state_dict", "save", "save_state_dict",
]  # fmt: skip
