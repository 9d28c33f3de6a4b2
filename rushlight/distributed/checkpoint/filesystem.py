"""Checkpoints in a folder, as PyTorch writes them.

.metadata        a pickle of Metadata; only the classes of checkpoints are read from it
__0_0.distcp     the values one behind the other, each as `torch.save` writes it
"""

from __future__ import annotations

import io
import os
import pathlib
import pickle
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rushlight as torch
from rushlight.distributed.checkpoint import metadata as records
from rushlight.distributed.checkpoint.metadata import Metadata, StorageMeta
from rushlight.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItemType,
)
from rushlight.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from rushlight.names import getattr_of as _getattr_of
from rushlight.serialization.pickle_write import dump
from rushlight.serialization.rebuild import get_layout

__getattr__ = _getattr_of(__name__)
__all__ = ["FileSystemWriter", "FileSystemReader"]
METADATA, DATA = ".metadata", "__0_0.distcp"
PROTOCOL = 4


@dataclass
class _StorageInfo:
    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if value is not None}


def _done(value: Any) -> Any:
    future = torch.futures.Future()
    future.set_result(value)
    return future


class _MetadataUnpickler(pickle._Unpickler):
    """Reads `.metadata`: no class or function but those of checkpoints is looked up, and only
    their objects get attributes. (Python's reader in Python: its opcodes can be replaced.)"""

    PLAIN = frozenset(("Size", "device"))
    RECORDS = frozenset((*records.__all__, records._MEM_FORMAT_ENCODING.__name__))
    dispatch = dict(pickle._Unpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch.distributed.checkpoint.metadata" and name in self.RECORDS:
            return getattr(records, name)
        if (module, name) == ("torch.distributed.checkpoint.filesystem", "_StorageInfo"):
            return _StorageInfo
        if (module, name) == ("torch.serialization", "_get_layout"):
            return get_layout
        if module in ("pathlib", "pathlib._local") and name in ("PosixPath", "WindowsPath"):
            return pathlib.PurePath
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if module == "torch" and (name in self.PLAIN or isinstance(
            getattr(torch, name, None), torch.dtype)):  # fmt: skip
            return getattr(torch, name)
        raise pickle.UnpicklingError(f"{METADATA} names {module}.{name}, which is not allowed")

    def load_build(self) -> None:
        """Set attributes of an object: never of a class, whose methods they could replace."""
        made = type(self.stack[-2])  # type: ignore[attr-defined]
        if made is not _StorageInfo and made.__module__ != records.__name__:
            raise pickle.UnpicklingError(f"{METADATA} sets attributes of {made}, not allowed")
        super().load_build()  # type: ignore[misc]

    dispatch[pickle.BUILD[0]] = load_build


class FileSystemWriter(StorageWriter):
    """Writes a checkpoint into the folder `path`, which is made.

    sync_files: wait until the disk has all. overwrite: False refuses a folder with a checkpoint.
    The settings of threads are accepted: one file is written.
    """

    def __init__(
        self, path: Any, single_file_per_rank: bool = True, sync_files: bool = True,
        thread_count: int = 1, per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False, overwrite: bool = True, **settings: Any,
    ) -> None:  # fmt: skip
        self.path, self.sync_files, self.overwrite = Path(path), sync_files, overwrite
        self.save_id = str(uuid.uuid4())
        if settings.pop("_extensions", None):
            raise NotImplementedError("FileSystemWriter: _extensions are not supported")

    @property
    def checkpoint_id(self) -> Any:
        return self.path

    def reset(self, checkpoint_id: Any = None) -> None:
        if checkpoint_id:
            self.path = Path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / METADATA).exists() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and self.overwrite=False: {self.path}")

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=str(self.path), save_id=self.save_id)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        results = []
        with open(self.path / DATA, "wb") as file:
            for item in plan.items:
                start, data = file.tell(), planner.resolve_data(item)
                if item.type is WriteItemType.BYTE_IO:
                    file.write(data.getbuffer())
                else:
                    whole = data.detach().contiguous()
                    one = io.BytesIO()  # a view would bring all of its memory along
                    torch.save(whole.clone() if _is_part(whole) else whole, one)
                    file.write(one.getbuffer())
                info = _StorageInfo(DATA, start, file.tell() - start)
                results.append(WriteResult(item.index, info.length, info))
            self._finish_file(file)
        return _done(results)

    def _finish_file(self, file: Any) -> None:
        file.flush()
        if self.sync_files:
            os.fsync(file.fileno())

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {r.index: r.storage_data for part in results for r in part}
        metadata.storage_meta = self.storage_meta()
        data, _ = dump(metadata, PROTOCOL)
        temporary = self.path / f"{METADATA}.tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            self._finish_file(file)
        temporary.replace(self.path / METADATA)  # whoever sees it sees a whole checkpoint


def _is_part(tensor: Any) -> bool:
    return tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size()


class FileSystemReader(StorageReader):
    """Reads a checkpoint from the folder `path`, of this package or of PyTorch."""

    def __init__(self, path: Any, _extension_registry: Any = None) -> None:
        self.path, self.load_id = Path(path), str(uuid.uuid4())
        self.storage_data: dict[Any, _StorageInfo] = {}

    @property
    def checkpoint_id(self) -> Any:
        return self.path

    def reset(self, checkpoint_id: Any = None) -> None:
        self.storage_data = {}
        if checkpoint_id:
            self.path = Path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with open(self.path / METADATA, "rb") as file:
            found = _MetadataUnpickler(file).load()
        if not isinstance(found, Metadata):
            raise pickle.UnpicklingError(f"{self.path / METADATA} is no metadata of a checkpoint")
        if found.storage_meta is not None:
            found.storage_meta.load_id = self.load_id
        return found

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def _bytes_of(self, item: Any) -> io.BytesIO:
        info = self.storage_data[item.storage_index]
        path = (self.path / info.relative_path).resolve()
        if not path.is_relative_to(self.path.resolve()):
            raise pickle.UnpicklingError(f"{METADATA} names a file outside: {info.relative_path}")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if info.offset < 0 or not 0 <= info.length <= size - info.offset:
                raise EOFError(f"{path} ends within {item.storage_index.fqn}")
            file.seek(info.offset)
            data = file.read(info.length)
        return io.BytesIO(data)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        for item in plan.items:
            data = self._bytes_of(item)
            if item.type is LoadItemType.BYTE_IO:
                planner.load_bytes(item, data)
                continue
            tensor = torch.load(data, map_location="cpu", weights_only=True)
            pairs = zip(item.storage_offsets, item.lengths, strict=True)
            part = tensor[tuple(slice(start, start + size) for start, size in pairs)]
            target = planner.resolve_tensor(item)
            if target.shape != part.shape:
                raise ValueError(
                    f"req {item.storage_index} mismatch sizes {target.shape} vs {part.shape}"
                )
            with torch.no_grad():
                target.copy_(part)
            planner.commit_tensor(item, target)
        return _done(None)
