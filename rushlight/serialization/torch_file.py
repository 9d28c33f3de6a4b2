"""PyTorch's files: a zip archive of one pickle and the storages of its tensors.

In: an object, or an archive of PyTorch or of this package. Out: the archive, or the object.

    NAME/data.pkl           the object, with ("storage", class, key, device, elements) for storages
    NAME/byteorder          "little" or "big"
    NAME/data/KEY           the bytes of a storage, aligned to 64 bytes
    NAME/version, NAME/.format_version, NAME/.storage_alignment, NAME/.data/serialization_id
"""

from __future__ import annotations

import io
import pickle
import sys
import zlib
from typing import Any, BinaryIO

import numpy as np

from rushlight.serialization.errors import CorruptFileError, UnsupportedObjectError
from rushlight.serialization.map_location import restore
from rushlight.serialization.pickle_write import dump
from rushlight.serialization.settings import get_crc32_options, skips_data, unmarked_byteorder
from rushlight.serialization.source import Source
from rushlight.serialization.storages import Storage, StorageClass, dtype_named
from rushlight.serialization.unpickle import UNSAFE_MESSAGE, WeightsUnpickler, explain
from rushlight.serialization.unpickle_all import load_all
from rushlight.serialization.zip_read import ZipReader
from rushlight.serialization.zip_write import ALIGNMENT_BYTES, ZipWriter


def write_torch(obj: Any, file: BinaryIO, folder: str, protocol: int) -> None:
    """Write an object; `folder` is the name of the archive's only folder."""
    data, storages = dump(obj, protocol)
    # The values that are left out come later, so no checksum would be theirs.
    archive = ZipWriter(file, get_crc32_options() and not skips_data())
    archive.add(f"{folder}/data.pkl", data)
    archive.add(f"{folder}/.format_version", b"1")
    archive.add(f"{folder}/.storage_alignment", str(ALIGNMENT_BYTES).encode())
    archive.add(f"{folder}/byteorder", sys.byteorder.encode())
    for storage in storages:
        memory = storage.memory
        if skips_data():
            memory = memoryview(np.zeros(len(memory), np.uint8))
        archive.add(f"{folder}/data/{storage.key}", memory)
    archive.add(f"{folder}/version", b"3\n")
    sums = b"".join(record.crc.to_bytes(4, "little") for record in archive.records)
    identifier = f"{zlib.crc32(data):020d}{zlib.crc32(sums):020d}"
    archive.add(f"{folder}/.data/serialization_id", identifier.encode())
    archive.close()


class TorchReader:
    """Reads one archive; storages are read when the pickle asks for them, each once."""

    def __init__(self, source: Source, map_location: Any) -> None:
        """Read the directory."""
        self.archive = ZipReader(source)
        self.map_location = map_location
        self.is_mapped = source.map is not None
        self.storages: dict[str, Storage] = {}
        self.must_swap = self._byteorder() != sys.byteorder

    def _byteorder(self) -> str:
        if "byteorder" not in self.archive:
            return unmarked_byteorder()
        found = bytes(self.archive.read("byteorder"))
        if found not in (b"little", b"big"):
            raise CorruptFileError(f"Unknown endianness type: {found!r:.50}")
        return found.decode()

    def load(self, weights_only: bool, pickle_module: Any, options: dict[str, Any]) -> Any:
        """Return the object."""
        if "constants.pkl" in self.archive:
            if weights_only:
                raise RuntimeError(
                    "Cannot use ``weights_only=True`` with TorchScript archives passed to "
                    "``torch.load``. " + UNSAFE_MESSAGE
                )
            raise UnsupportedObjectError(
                "this is a TorchScript archive, a program; Rushlight loads tensors and objects. "
                "Save the state_dict of the model with PyTorch"
            )
        file = io.BytesIO(self.archive.read("data.pkl"))
        return run_pickle(file, self.storage, weights_only, pickle_module, options)

    def storage(self, saved_id: Any) -> Storage:
        """Return the storage that a pickle names."""
        if not isinstance(saved_id, tuple) or len(saved_id) != 5:
            raise CorruptFileError(f"a storage is named {saved_id!r:.100}")
        _, kind, key, location, numel = saved_id
        if not isinstance(kind, StorageClass) or not isinstance(key, str):
            raise CorruptFileError(f"a storage has the class {kind!r:.50} and key {key!r:.50}")
        size = kind.size_bytes(numel)
        record = self.archive.require(f"data/{key}")
        if record.size_bytes != size:
            raise CorruptFileError(
                f"record 'data/{key}' has {record.size_bytes} bytes, its tensors need {size}"
            )
        if key not in self.storages:
            # A mapped file stays on the disk until it is used: nothing is summed.
            if skips_data():
                memory = bytearray(size)
            else:
                memory = self.archive.read(f"data/{key}", is_checked=not self.is_mapped)
            if self.must_swap:
                memory = swapped(memory, kind)
            storage = restore(Storage(memory, kind), str(location), self.map_location)
            self.storages[key] = storage
        return self.storages[key]


def run_pickle(
    file: Any, persistent_load: Any, weights_only: bool, pickle_module: Any, options: dict[str, Any]
) -> Any:
    """Read one pickle, with the restricted reader or with any other."""
    if not weights_only:
        return load_all(file, persistent_load, pickle_module or pickle, options)
    try:
        return WeightsUnpickler(file, persistent_load).load()
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(explain(str(error))) from None


def swapped(memory: Any, kind: StorageClass) -> bytearray:
    """Return the bytes of a storage in this machine's order."""
    if kind.dtype_name is None:
        raise UnsupportedObjectError("bytes without a dtype, in the other byte order")
    parts = 2 if kind.dtype_name.startswith("complex") else 1
    width = dtype_named(kind.dtype_name).itemsize // parts
    return bytearray(np.frombuffer(memory, f"u{width}").byteswap().tobytes())
