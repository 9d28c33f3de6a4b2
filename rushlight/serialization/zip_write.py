"""Write a zip archive as PyTorch's writer does: stored records, each with its data aligned.

In: names and bytes, in order. Out: an archive that PyTorch maps into memory and whose offsets it
can calculate: local header, padding as an extra field "FB", data, data descriptor.
Always true: nothing is compressed, every record has its CRC-32, only `write` of the file is used.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO

ALIGNMENT_BYTES = 64
LIMIT_32 = ALL_ONES = 0xFFFFFFFF  # what does not fit below the limit is written as ALL_ONES
LIMIT_16 = 0xFFFF
CHUNK_BYTES = 1 << 24
UTF8, DESCRIPTOR = 0x0800, 0x0008

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END_64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR_64 = struct.Struct("<4sIQI")


@dataclass(frozen=True)
class Written:
    """One record that is in the archive."""

    name: bytes
    crc: int
    size_bytes: int
    header_at: int


class ZipWriter:
    """Appends records to a file; `close` writes the directory.

    Example:
        >>> import io, zipfile
        >>> file = io.BytesIO()
        >>> archive = ZipWriter(file)
        >>> archive.add("a/data.pkl", b"hello")
        >>> archive.close()
        >>> zipfile.ZipFile(file).read("a/data.pkl")
        b'hello'
    """

    def __init__(self, file: BinaryIO, has_sums: bool = True) -> None:
        """Start at the file's present position; without sums all checksums are 0."""
        self.has_sums = has_sums
        self.file = file
        self.position = 0
        self.records: list[Written] = []

    def add(self, name: str, data: Any) -> None:
        """Write one record; `data` is bytes or a flat memoryview of bytes."""
        encoded, size, start = name.encode(), len(data), self.position
        flags = UTF8 | (DESCRIPTOR if size else 0)
        extra = extra_64(size, start)
        extra += padding(start + LOCAL.size + len(encoded) + len(extra))
        short = ALL_ONES if size >= LIMIT_32 else 0
        self._put(
            LOCAL.pack(
                b"PK\x03\x04", 0, flags, 0, 0, 0, 0, short, short, len(encoded), len(extra)
            ) + encoded + extra
        )  # fmt: skip
        crc = 0
        for at in range(0, size, CHUNK_BYTES):
            piece = data[at : at + CHUNK_BYTES]
            crc = zlib.crc32(piece, crc) if self.has_sums else 0
            self._put(piece)
        if size:
            is_wide = size >= LIMIT_32 or start >= LIMIT_32
            self._put(struct.pack("<4sI2Q" if is_wide else "<4s3I", b"PK\x07\x08", crc, size, size))
        self.records.append(Written(encoded, crc, size, start))

    def close(self) -> None:
        """Write the directory of the records and the end of the archive."""
        start = self.position
        for record in self.records:
            size, at = record.size_bytes, record.header_at
            extra = extra_64(size, at)
            flags = UTF8 | (DESCRIPTOR if size else 0)
            short = narrow(size)
            self._put(
                CENTRAL.pack(
                    b"PK\x01\x02", 0, 0, flags, 0, 0, 0, record.crc, short, short,
                    len(record.name), len(extra), 0, 0, 0, 0, narrow(at),
                ) + record.name + extra
            )  # fmt: skip
        size, count = self.position - start, len(self.records)
        if count >= LIMIT_16 or start >= LIMIT_32 or size >= LIMIT_32:
            end_at = self.position
            self._put(
                END_64.pack(b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start)
                + LOCATOR_64.pack(b"PK\x06\x07", 0, end_at, 1)
            )
        few = min(count, LIMIT_16)
        self._put(
            END.pack(
                b"PK\x05\x06", 0, 0, few, few, narrow(size), narrow(start), 0
            )
        )  # fmt: skip

    def _put(self, data: Any) -> None:
        self.file.write(data)
        self.position += len(data)


def narrow(value: int) -> int:
    """Return a number for a field of 32 bits."""
    return ALL_ONES if value >= LIMIT_32 else value


def extra_64(size: int, header_at: int) -> bytes:
    """Return the extra field for what does not fit in 32 bits; nothing when all fits."""
    values = []
    if size >= LIMIT_32:
        values += [size, size]
    if header_at >= LIMIT_32:
        values.append(header_at)
    if not values:
        return b""
    return struct.pack(f"<2H{len(values)}Q", 1, 8 * len(values), *values)


def padding(position: int) -> bytes:
    """Return the extra field that moves the data behind it to an aligned place."""
    count = -(position + 4) % ALIGNMENT_BYTES
    return b"FB" + struct.pack("<H", count) + b"Z" * count
