"""Read and write safetensors files natively, with a checksum for every tensor.

The files are valid for every other reader of the format; the checksums are metadata. Files of
other tools, which have none, are read with all checks but those.

Format: https://github.com/huggingface/safetensors (README, "Format").
Not supported: dtypes smaller than one byte.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import rushlight as torch
from rushlight.serialization.atomic_file import replace_file
from rushlight.serialization.dtype_names import (
    STORED_DTYPES,
    bytes_to_tensor,
    name_of_dtype,
    tensor_to_bytes,
)
from rushlight.serialization.errors import CorruptFileError
from rushlight.serialization.header import (
    CRC_TENSORS,
    MAX_HEADER_BYTES,
    METADATA,
    OWN_PREFIX,
    Entry,
    build_header,
    crc_text,
    parse_header,
)
from rushlight.serialization.source import Source

LENGTH_BYTES = 8
Path = str | os.PathLike[str]


def lay_out(tensors: Mapping[str, torch.Tensor]) -> list[Entry]:
    """Give each tensor its place: wide dtypes first, so that every tensor is aligned."""
    names = {name: name_of_dtype(tensor.dtype) for name, tensor in tensors.items()}
    order = sorted(tensors, key=lambda name: (-STORED_DTYPES[names[name]].size_bytes, name))
    entries = []
    start = 0
    for name in order:
        if not isinstance(name, str) or name == METADATA:
            raise ValueError(f"{name!r} cannot be the name of a tensor")
        end = start + tensors[name].numel() * STORED_DTYPES[names[name]].size_bytes
        entries.append(Entry(name, names[name], tuple(tensors[name].shape), start, end))
        start = end
    return entries


def write_tensors(
    file: BinaryIO,
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str],
    is_checked: bool = True,
) -> None:
    """Write a whole file. Each tensor is turned into bytes twice, never all at once in memory.

    `is_checked` False: no checksums; the file is what the safetensors package writes.
    """
    entries = lay_out(tensors)
    own = {}
    if is_checked:
        sums = {entry.name: crc_text(tensor_to_bytes(tensors[entry.name])) for entry in entries}
        own = {CRC_TENSORS: json.dumps(sums, separators=(",", ":"))}
    header = build_header(entries, {**metadata, **own})
    file.write(len(header).to_bytes(LENGTH_BYTES, "little"))
    file.write(header)
    for entry in entries:
        file.write(tensor_to_bytes(tensors[entry.name]))


def read_tensors(source: Source) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read a whole file; every check is done before its tensor is handed out."""
    if source.size_bytes < LENGTH_BYTES:
        raise CorruptFileError(f"the file has {source.size_bytes} bytes, too few for a header")
    start = bytes(source.take(LENGTH_BYTES))
    header_bytes = int.from_bytes(start, "little")
    data_bytes = source.size_bytes - LENGTH_BYTES - header_bytes
    if header_bytes > MAX_HEADER_BYTES or data_bytes < 0:
        raise CorruptFileError(
            f"the header says it has {header_bytes} bytes; the file has {source.size_bytes} and "
            f"{MAX_HEADER_BYTES} are allowed"
        )
    entries, metadata = parse_header(bytes(source.take(header_bytes)), data_bytes)
    # A mapped file stays on the disk until it is used: nothing is summed.
    checksums = parse_checksums(metadata, entries) if source.map is None else None
    buffers = {}
    # One thread sums what has been read while the next tensor comes in.
    with ThreadPoolExecutor(max_workers=1) as adder:
        sums = {}
        for entry in entries:
            buffers[entry.name] = buffer = source.take(entry.end - entry.start)
            if checksums is not None:
                sums[entry.name] = adder.submit(crc_text, buffer)
        for name, found in sums.items():
            if found.result() != checksums[name]:  # type: ignore[index]
                raise CorruptFileError(f"tensor '{name}' does not match its checksum")
    tensors = {
        entry.name: bytes_to_tensor(buffers[entry.name], entry.dtype_name, entry.shape)
        for entry in entries
    }
    return tensors, metadata


def parse_checksums(metadata: dict[str, str], entries: list[Entry]) -> dict[str, str] | None:
    """Return the checksum of each tensor, or None for a file of another tool."""
    if CRC_TENSORS not in metadata:
        return None
    try:
        checksums = json.loads(metadata[CRC_TENSORS])
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"the checksums cannot be read: {error}") from error
    if not isinstance(checksums, dict) or set(checksums) != {entry.name for entry in entries}:
        raise CorruptFileError("the checksums name other tensors than the header")
    return checksums


def open_and_read(path: Path, is_mapped: bool) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read a file by name; messages then name the file too."""
    with open(path, "rb") as file:
        try:
            return read_tensors(Source(file, is_mapped))
        except CorruptFileError as error:
            raise CorruptFileError(f"{os.fspath(path)}: {error}") from error


def user_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Leave out what this package wrote for itself."""
    return {key: value for key, value in metadata.items() if not key.startswith(OWN_PREFIX)}


def save_file(
    tensors: Mapping[str, torch.Tensor],
    filename: Path,
    metadata: Mapping[str, str] | None = None,
    is_checked: bool = True,
) -> None:
    """Write named tensors to a file, which is replaced as a whole or not at all.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_file({"weight": torch.ones(2)}, folder + "/model.safetensors")
        ...     load_file(folder + "/model.safetensors")
        {'weight': tensor([1., 1.])}
    """
    replace_file(filename, lambda file: write_tensors(file, tensors, metadata or {}, is_checked))


def load_file(filename: Path, device: Any = "cpu") -> dict[str, torch.Tensor]:
    """Read the named tensors of a file."""
    tensors, _ = open_and_read(filename, is_mapped=False)
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def load_metadata(filename: Path) -> dict[str, str]:
    """Read the metadata that `save_file` was given."""
    return user_metadata(open_and_read(filename, is_mapped=True)[1])
