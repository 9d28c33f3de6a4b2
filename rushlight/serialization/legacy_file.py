"""PyTorch's files before 1.6: pickles one behind the other, then the bytes of the storages.

In: a file that starts with the magic number. Out: the object. The tensors are made before their
bytes are read, over memory that is filled at the end.
"""

from __future__ import annotations

from typing import Any

from rushlight.serialization.errors import CorruptFileError, UnsupportedObjectError
from rushlight.serialization.map_location import restore
from rushlight.serialization.source import Source
from rushlight.serialization.storages import Storage, StorageClass
from rushlight.serialization.torch_file import run_pickle

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
LENGTH_BYTES = 8
MAX_LINE_BYTES = 4096


class PickleStream:
    """The pickles at the start of a source, for readers that call `read` and `readline`."""

    def __init__(self, source: Source) -> None:
        """Read from the source's position on."""
        self.source = source

    def read(self, count: int = -1) -> bytes:
        """Return what is there, up to `count` bytes."""
        left = self.source.left_bytes
        return bytes(self.source.take(left if count < 0 else min(count, left)))

    def readline(self) -> bytes:
        """Return bytes up to a line's end; no name in a pickle is longer than MAX_LINE_BYTES."""
        head, found, _ = self.source.peek(MAX_LINE_BYTES).partition(b"\n")
        return bytes(self.source.take(len(head) + len(found)))

    def readinto(self, target: Any) -> int:
        """Fill `target` as far as there are bytes."""
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)


class LegacyReader:
    """Reads one file."""

    def __init__(self, source: Source, map_location: Any) -> None:
        """Start at the source's position."""
        self.source = source
        self.map_location = map_location
        self.memories: dict[str, tuple[bytearray, StorageClass]] = {}
        self.storages: dict[Any, Storage] = {}
        self.promised_bytes = 0

    def load(self, weights_only: bool, pickle_module: Any, options: dict[str, Any]) -> Any:
        """Return the object."""

        def next_object(persistent_load: Any) -> Any:
            stream = PickleStream(self.source)
            return run_pickle(stream, persistent_load, weights_only, pickle_module, options)

        if next_object(refuse_storage) != MAGIC_NUMBER:
            raise CorruptFileError("Invalid magic number; corrupt file?")
        version = next_object(refuse_storage)
        if version != PROTOCOL_VERSION:
            raise CorruptFileError(f"Invalid protocol version: {version!r:.50}")
        next_object(refuse_storage)  # sizes of C's integers on the machine that wrote
        result = next_object(self.storage)
        self._fill(next_object(refuse_storage))
        return result

    def storage(self, saved_id: Any) -> Storage:
        """Return the storage that a pickle names, with memory that is filled later."""
        if not isinstance(saved_id, tuple) or len(saved_id) != 6 or saved_id[0] != "storage":
            raise UnsupportedObjectError(f"the file keeps {saved_id!r:.100} outside of its pickle")
        _, kind, key, location, numel, view = saved_id
        if view is not None:
            raise UnsupportedObjectError("storages that are views of others, of PyTorch before 0.4")
        if not isinstance(kind, StorageClass) or not isinstance(key, str):
            raise CorruptFileError(f"a storage has the class {kind!r:.50} and key {key!r:.50}")
        size = kind.size_bytes(numel)
        if key not in self.storages:
            self.promised_bytes += size
            if self.promised_bytes > self.source.size_bytes:
                raise CorruptFileError(
                    f"the storages need {self.promised_bytes} bytes, the whole file has "
                    f"{self.source.size_bytes}"
                )
            memory = bytearray(size)
            self.memories[key] = memory, kind
            storage = Storage(memory, kind)
            self.storages[key] = restore(storage, str(location), self.map_location)
        return self.storages[key]

    def _fill(self, keys: Any) -> None:
        """Read the bytes of the storages, which stand in the order of `keys`."""
        if not isinstance(keys, list) or len(keys) != len(self.memories):
            raise CorruptFileError("the list of storages is damaged")
        for key in keys:
            if not isinstance(key, str) or key not in self.memories:
                raise CorruptFileError(f"the file has a storage {key!r:.50} that no tensor needs")
            memory, kind = self.memories.pop(key)
            numel = int.from_bytes(self.source.take(LENGTH_BYTES), "little")
            if kind.size_bytes(numel) != len(memory):
                raise CorruptFileError(f"storage '{key}' has {numel} elements, not as many as said")
            memory[:] = self.source.take(len(memory))
        if self.source.left_bytes:
            raise CorruptFileError(f"the file has {self.source.left_bytes} bytes too many")


def refuse_storage(saved_id: Any) -> Any:
    """Pickles but the fourth have no tensors."""
    raise CorruptFileError(f"a storage {saved_id!r:.100} at the wrong place")
