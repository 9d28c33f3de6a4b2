"""The header of a safetensors file: where each tensor lies, checked before anything is read.

    8 bytes       length of the header, little-endian
    header        JSON: {"__metadata__": {text: text}, name: {dtype, shape, data_offsets}, ...}
    data          the tensors, one behind the other without holes

Always true here: what `parse_header` returns lies inside the file, does not overlap, leaves no
hole, and has as many bytes as dtype and shape say.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from typing import Any

from rushlight.serialization.dtype_names import STORED_DTYPES
from rushlight.serialization.errors import CorruptFileError

MAX_HEADER_BYTES = 100_000_000
ALIGNMENT_BYTES = 8
MAX_ELEMENTS = 2**63 - 1
METADATA = "__metadata__"
FIELDS = {"dtype", "shape", "data_offsets"}

OWN_PREFIX = "rushlight."
CRC_TENSORS = "rushlight.crc32"
CRC_HEADER = "rushlight.header_crc32"
NO_CRC = "00000000"
# A quote inside a JSON string has a backslash before it, so this is found only as key and value.
CRC_HEADER_MARK = f'"{CRC_HEADER}":"'.encode()


@dataclass(frozen=True)
class Entry:
    """One tensor of a file; the offsets count from the first byte of the data."""

    name: str
    dtype_name: str
    shape: tuple[int, ...]
    start: int
    end: int


def crc_text(data: Any) -> str:
    """Return a CRC-32 as eight hexadecimal digits.

    Example:
        >>> crc_text(b"hello")
        '3610a686'
    """
    return f"{zlib.crc32(data):08x}"


def build_header(entries: list[Entry], metadata: dict[str, str]) -> bytes:
    """Return the header bytes, padded with spaces and with a checksum of themselves.

    Without checksums of tensors in the metadata there is none of the header either.
    """
    own = {CRC_HEADER: NO_CRC} if CRC_TENSORS in metadata else {}
    table: dict[str, Any] = {METADATA: {**own, **metadata}} if own or metadata else {}
    for entry in entries:
        table[entry.name] = {
            "dtype": entry.dtype_name,
            "shape": list(entry.shape),
            "data_offsets": [entry.start, entry.end],
        }
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-len(header) % ALIGNMENT_BYTES)
    if len(header) > MAX_HEADER_BYTES:
        raise ValueError(
            f"the header would have {len(header)} bytes, more than the {MAX_HEADER_BYTES} of "
            "the format"
        )
    if not own:
        return header
    mark = CRC_HEADER_MARK
    return header.replace(mark + NO_CRC.encode(), mark + crc_text(header).encode(), 1)


def check_header_crc(header: bytes, metadata: dict[str, str]) -> None:
    """Refuse a header of this package that was changed after it was written."""
    if not any(key.startswith(OWN_PREFIX) for key in metadata):
        return  # written by another tool
    before, mark, after = header.partition(CRC_HEADER_MARK)
    unsigned = before + mark + NO_CRC.encode() + after[len(NO_CRC) :]
    if CRC_HEADER not in metadata or not mark or metadata[CRC_HEADER] != crc_text(unsigned):
        raise CorruptFileError("the header does not match its checksum")
    if CRC_TENSORS not in metadata:
        raise CorruptFileError("the header has no checksums of the tensors")


def parse_header(header: bytes, data_bytes: int) -> tuple[list[Entry], dict[str, str]]:
    """Return the entries in the order of their bytes, and the metadata."""
    table = parse_json(header)
    metadata = table.pop(METADATA, {})
    if not isinstance(metadata, dict) or any(not isinstance(v, str) for v in metadata.values()):
        raise CorruptFileError(f"{METADATA} must be a map from text to text")
    check_header_crc(header, metadata)
    entries = [parse_entry(name, value, data_bytes) for name, value in table.items()]
    entries.sort(key=lambda entry: (entry.start, entry.end))
    position = 0
    for entry in entries:
        if entry.start != position:
            problem = "overlaps the tensor before it" if entry.start < position else "leaves a hole"
            raise CorruptFileError(
                f"tensor '{entry.name}' starts at byte {entry.start} and {problem}, "
                f"which ends at byte {position}"
            )
        position = entry.end
    if position != data_bytes:
        last = f" (the last tensor is '{entries[-1].name}')" if entries else ""
        raise CorruptFileError(
            f"the tensors have {position} bytes, the file has {data_bytes}{last}"
        )
    return entries, metadata


def parse_json(header: bytes) -> dict[str, Any]:
    """Read the JSON object strictly: no key twice, no NaN, nothing before it."""

    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise CorruptFileError(f"the header contains '{twice}' twice")
        return table

    def refuse_constant(text: str) -> None:
        raise CorruptFileError(f"the header contains {text}")

    if not header.startswith(b"{"):
        raise CorruptFileError("the header does not start with '{'")
    try:
        table = json.loads(
            header.decode("utf-8"),
            object_pairs_hook=refuse_duplicates,
            parse_constant=refuse_constant,
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError, ValueError) as error:
        raise CorruptFileError(f"the header is not valid JSON: {error}") from error
    return table


def parse_entry(name: str, value: Any, data_bytes: int) -> Entry:
    """Check one tensor's entry by itself."""
    if not isinstance(value, dict) or set(value) != FIELDS:
        raise CorruptFileError(f"tensor '{name}' must have exactly the fields {sorted(FIELDS)}")
    dtype_name, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype_name, str) or dtype_name not in STORED_DTYPES:
        raise CorruptFileError(f"tensor '{name}' has the unknown dtype {dtype_name!r}")
    if not is_list_of_sizes(shape) or not is_list_of_sizes(offsets) or len(offsets) != 2:
        raise CorruptFileError(f"tensor '{name}' has the shape {shape} and offsets {offsets}")
    start, end = offsets
    if not start <= end <= data_bytes:
        raise CorruptFileError(
            f"tensor '{name}' lies at bytes {start} to {end}, outside of the {data_bytes} bytes "
            "of data: the file is cut or damaged"
        )
    # The product of the sizes that are not zero too: a reader may multiply before it sees a zero.
    if math.prod(size for size in shape if size != 0) > MAX_ELEMENTS:
        raise CorruptFileError(f"tensor '{name}' has more elements than fit: {shape}")
    needed = math.prod(shape) * STORED_DTYPES[dtype_name].size_bytes
    if end - start != needed:
        raise CorruptFileError(
            f"tensor '{name}' has {end - start} bytes, but {dtype_name} {shape} needs {needed}"
        )
    return Entry(name, dtype_name, tuple(shape), start, end)


def is_list_of_sizes(value: Any) -> bool:
    """Say if it is a list of non-negative integers (and no booleans, which Python counts)."""
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
