"""Saving and loading: `torch.save`, `torch.load`, safetensors files, GGUF files, sharded models."""

from collections.abc import Callable as _Callable
from os import PathLike as _PathLike
from typing import IO as _IO
from typing import Any as _Any

from rushlight import names as _names
from rushlight.serialization import gguf, safetensors
from rushlight.serialization.errors import CorruptFileError, UnsupportedObjectError
from rushlight.serialization.packages import (
    default_restore_location,
    location_tag,
    mkdtemp,
    register_package,
    validate_cuda_device,
    validate_hpu_device,
)
from rushlight.serialization.safe_globals import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)
from rushlight.serialization.save_load import load, save
from rushlight.serialization.settings import (
    LoadEndianness,
    SourceChangeWarning,
    check_module_version_greater_or_equal,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from rushlight.serialization.shards import ShardedCheckpoint, load_sharded

__getattr__ = _names.getattr_of(__name__)
DEFAULT_PROTOCOL = 2
FILE_LIKE = str | _PathLike | _IO[bytes]
MAP_LOCATION = _Callable[[_Any, str], _Any] | str | dict[str, str] | None

__all__ = [
    "add_safe_globals", "check_module_version_greater_or_equal", "clear_safe_globals",
    "CorruptFileError", "default_restore_location", "FILE_LIKE", "get_crc32_options",
    "get_default_load_endianness", "get_default_mmap_options", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "gguf", "load", "load_sharded", "LoadEndianness",
    "location_tag", "MAP_LOCATION", "mkdtemp", "register_package",
    "safe_globals", "safetensors", "save", "set_crc32_options", "set_default_load_endianness",
    "set_default_mmap_options", "ShardedCheckpoint", "skip_data", "SourceChangeWarning",
    "UnsupportedObjectError", "validate_cuda_device",
    "validate_hpu_device",
]  # fmt: skip
