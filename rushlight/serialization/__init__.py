"""Saving and loading: `torch.save`, `torch.load`, safetensors files, GGUF files, sharded models."""

from rushlight import names as _names
from rushlight.serialization import gguf, safetensors
from rushlight.serialization.errors import CorruptFileError, UnsupportedObjectError
from rushlight.serialization.safe_globals import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)
from rushlight.serialization.save_load import load, save
from rushlight.serialization.shards import ShardedCheckpoint, load_sharded

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "CorruptFileError",
    "ShardedCheckpoint",
    "UnsupportedObjectError",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "gguf",
    "load",
    "load_sharded",
    "safe_globals",
    "safetensors",
    "save",
]
