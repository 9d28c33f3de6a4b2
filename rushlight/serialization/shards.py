"""Checkpoints in several files with an index, as Hugging Face writes them.

In: a folder, or its `model.safetensors.index.json` or `pytorch_model.bin.index.json`. Out: one
mapping from names to tensors. Always true: a file is opened when the first of its tensors is asked
for, and mapped, so that only the pages that are used are read; no name leads out of the folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import rushlight as torch
from rushlight.serialization.errors import CorruptFileError
from rushlight.serialization.safetensors import open_and_read
from rushlight.serialization.save_load import SAFETENSORS, load

INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
SINGLE_FILES = ("model.safetensors", "pytorch_model.bin")
MAX_INDEX_BYTES = 1 << 28


class ShardedCheckpoint(Mapping[str, torch.Tensor]):
    """The tensors of all files by name; `load_state_dict` takes it.

    Example:
        >>> import tempfile
        >>> from rushlight.serialization import safetensors
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     safetensors.save_file({"a": torch.ones(2)}, folder + "/part-1.safetensors")
        ...     index = {"metadata": {}, "weight_map": {"a": "part-1.safetensors"}}
        ...     with open(folder + "/model.safetensors.index.json", "w") as file:
        ...         json.dump(index, file)
        ...     state = ShardedCheckpoint(folder)
        ...     list(state), state["a"]
        (['a'], tensor([1., 1.]))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the index; a folder without one may hold a single file."""
        self.folder, index = find_index(os.fspath(path))
        if index.endswith(".json"):
            self.metadata, self.files = read_index(os.path.join(self.folder, index))
            self._open: dict[str, Mapping[str, torch.Tensor]] = {}
        else:
            self.metadata = {}
            self._open = {index: self._read(index)}
            self.files = dict.fromkeys(self._open[index], index)

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a tensor; KeyError for a name that is not in the index."""
        file = self.files[name]
        if file not in self._open:
            self._open[file] = self._read(file)
        if name not in self._open[file]:
            raise CorruptFileError(f"{self._path(file)}: it has no tensor '{name}', the index says")
        return self._open[file][name]

    def __iter__(self) -> Iterator[str]:
        """All names, in the order of the index."""
        return iter(self.files)

    def __len__(self) -> int:
        """How many tensors there are."""
        return len(self.files)

    def _path(self, file: str) -> str:
        return os.path.join(self.folder, file)

    def _read(self, file: str) -> Mapping[str, torch.Tensor]:
        path = self._path(file)
        if file.endswith(SAFETENSORS):
            return open_and_read(path, is_mapped=True)[0]
        with open(path, "rb") as start:
            is_mapped = start.read(2) == b"PK"
        found = load(path, map_location="cpu", mmap=is_mapped)
        if not isinstance(found, dict):
            raise CorruptFileError(f"{path}: it holds a {type(found).__name__}, not a state dict")
        return found


def load_sharded(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return all tensors of a checkpoint in several files as one state dict, mapped.

    FileNotFoundError: there is no index and no single file, or a file of the index is missing.
    """
    return dict(ShardedCheckpoint(path))


def find_index(path: str) -> tuple[str, str]:
    """Return the folder, and the name of the index or of the single file."""
    if not os.path.isdir(path):
        folder, name = os.path.split(path)
        return folder, name
    for name in (*INDEXES, *SINGLE_FILES):
        if os.path.exists(os.path.join(path, name)):
            return path, name
    raise FileNotFoundError(
        f"{path} has none of {', '.join((*INDEXES, *SINGLE_FILES))}: no checkpoint is there"
    )


def read_index(path: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the index's metadata, and the file of each tensor."""
    if os.path.getsize(path) > MAX_INDEX_BYTES:
        raise CorruptFileError(f"{path}: an index of more than {MAX_INDEX_BYTES} bytes")
    with open(path, "rb") as file:
        data = file.read()
    try:
        index = json.loads(data)
        metadata, files = index.get("metadata") or {}, index["weight_map"]
        pairs = list(files.items())
    except (ValueError, LookupError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"{path}: it is no index of a checkpoint: {error!r:.200}") from error
    for name, file in pairs:
        if not isinstance(file, str) or not is_plain_name(file):
            raise CorruptFileError(
                f"{path}: tensor '{name:.100}' lies in {file!r:.200}, which is no file beside the "
                "index"
            )
    return metadata, files


def is_plain_name(name: str) -> bool:
    """Say if a file name stays in the folder."""
    return name not in ("", ".", "..") and not any(sign in name for sign in "/\\\0:")
