"""Read a zip archive of stored records, with every number in it checked before it is used.

In: a source. Out: the records of the one folder that such an archive has. Always true: records lie
inside the file and do not overlap, so all of them together are no larger than the file; nothing is
decompressed and nothing is written, whatever names and sizes an archive claims.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rushlight.serialization.errors import CorruptFileError
from rushlight.serialization.source import Source
from rushlight.serialization.zip_write import ALL_ONES, CENTRAL, END, END_64, LOCAL, LOCATOR_64

MAX_COMMENT_BYTES = 0xFFFF
NO_ARCHIVE = "PytorchStreamReader failed reading zip archive: "
STORED, ENCRYPTED = 0, 1


@dataclass(frozen=True)
class Record:
    """One record; `data_at` and `header_at` count from the start of the archive."""

    name: str
    crc: int
    size_bytes: int  # in the file
    is_stored: bool  # as it is, neither compressed nor encrypted
    header_at: int
    data_at: int = 0


class ZipReader:
    """The records of an archive by name, without the folder that all are in."""

    def __init__(self, source: Source) -> None:
        """Read and check the directory; no data is read yet."""
        self.source = source
        count, size, start = self._find_directory()
        records = list(self._directory(bytes(source.take_at(start, size)), count))
        self.records = self._without_folder(self._placed(records, start))
        # PyTorch's set_crc32_options(False) leaves all sums 0.
        self.has_sums = any(record.crc for record in records)

    def __contains__(self, name: str) -> bool:
        """Say if there is a record of that name."""
        return name in self.records

    def read(self, name: str, is_checked: bool = True) -> bytearray | memoryview:
        """Return the bytes of a record, writable; refuse them if they were changed."""
        record = self.require(name)
        data = self.source.take_at(record.data_at, record.size_bytes)
        if is_checked and self.has_sums and zlib.crc32(data) != record.crc:
            raise CorruptFileError(f"record '{name}' does not match its checksum")
        return data

    def require(self, name: str) -> Record:
        """Return the record of that name, which is not compressed."""
        if name not in self.records:
            raise CorruptFileError(
                f"{NO_ARCHIVE}file not found: {name}; the file is cut, damaged or no checkpoint"
            )
        if not self.records[name].is_stored:
            raise CorruptFileError(
                f"record '{name}' is compressed or encrypted; checkpoints of PyTorch are not"
            )
        return self.records[name]

    def _find_directory(self) -> tuple[int, int, int]:
        """Return how many records there are, and size and place of the directory."""
        source = self.source
        tail_bytes = min(source.size_bytes, END.size + MAX_COMMENT_BYTES)
        tail_at = source.size_bytes - tail_bytes
        tail = bytes(source.take_at(tail_at, tail_bytes))
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or at + END.size > len(tail):
            raise CorruptFileError(
                f"{NO_ARCHIVE}failed finding central directory; the file is cut or damaged"
            )
        _, disk, first_disk, here, count, size, start, comment = END.unpack_from(tail, at)
        if (disk, first_disk) != (0, 0) or here != count or at + END.size + comment != len(tail):
            raise CorruptFileError(f"{NO_ARCHIVE}the end of the archive is damaged")
        end = tail_at + at
        wide = self._wide_end(end)
        if wide is not None:
            count, size, start, end = wide
        if start + size != end:
            raise CorruptFileError(
                f"{NO_ARCHIVE}its directory of {size} bytes at {start} does not end at {end}"
            )
        return count, size, start

    def _wide_end(self, end: int) -> tuple[int, int, int, int] | None:
        """Return the directory's numbers where they are given with 64 bits."""
        at = end - LOCATOR_64.size
        if at < END_64.size:
            return None
        mark, _, place, _ = LOCATOR_64.unpack(self.source.take_at(at, LOCATOR_64.size))
        if mark != b"PK\x06\x07":
            return None
        if place + END_64.size != at:
            raise CorruptFileError(f"{NO_ARCHIVE}the end of the archive is damaged")
        end_64 = END_64.unpack(self.source.take_at(place, END_64.size))
        if end_64[0] != b"PK\x06\x06":
            raise CorruptFileError(f"{NO_ARCHIVE}the end of the archive is damaged")
        return end_64[7], end_64[8], end_64[9], place

    def _directory(self, table: bytes, count: int) -> Iterator[Record]:
        at = 0
        for _ in range(count):
            if at + CENTRAL.size > len(table):
                raise CorruptFileError(f"{NO_ARCHIVE}its directory is cut")
            entry = CENTRAL.unpack_from(table, at)
            mark, flags, method, crc, packed, size = (entry[i] for i in (0, 3, 4, 7, 8, 9))
            name_bytes, extra_bytes, comment_bytes, header_at = (*entry[10:13], entry[16])
            name_end = at + CENTRAL.size + name_bytes
            name = table[at + CENTRAL.size : name_end].decode("utf-8", "replace")
            if mark != b"PK\x01\x02" or name_end + extra_bytes + comment_bytes > len(table):
                raise CorruptFileError(f"{NO_ARCHIVE}its directory is damaged")
            extra = table[name_end : name_end + extra_bytes]
            packed, size, header_at = wide_values(extra, [packed, size, header_at])
            is_stored = method == STORED and not flags & ENCRYPTED and packed == size
            at = name_end + extra_bytes + comment_bytes
            yield Record(name, crc, packed, is_stored, header_at)
        if at != len(table):
            raise CorruptFileError(f"{NO_ARCHIVE}its directory has {len(table) - at} bytes more")

    def _placed(self, records: list[Record], directory_at: int) -> list[Record]:
        """Find where the data of each record starts; refuse records that overlap."""
        placed = []
        end, before = 0, ""
        for record in sorted(records, key=lambda record: record.header_at):
            if record.header_at < end:
                raise CorruptFileError(f"record '{record.name}' overlaps record '{before}'")
            if record.header_at + LOCAL.size + record.size_bytes > directory_at:
                raise CorruptFileError(f"record '{record.name}' lies outside of the file")
            header = LOCAL.unpack(self.source.take_at(record.header_at, LOCAL.size))
            name = bytes(self.source.take(min(header[9], directory_at)))
            if header[0] != b"PK\x03\x04" or name.decode("utf-8", "replace") != record.name:
                raise CorruptFileError(f"record '{record.name}' has a damaged header")
            data_at = record.header_at + LOCAL.size + header[9] + header[10]
            end, before = data_at + record.size_bytes, record.name
            if end > directory_at:
                raise CorruptFileError(f"record '{record.name}' lies outside of the file")
            placed.append(replace(record, data_at=data_at))
        return placed

    def _without_folder(self, records: list[Record]) -> dict[str, Record]:
        if not records:
            raise CorruptFileError(f"{NO_ARCHIVE}there is no record in it")
        folder = records[0].name.partition("/")[0] + "/"
        found: dict[str, Record] = {}
        for record in records:
            name = record.name.removeprefix(folder)
            if name in found:
                raise CorruptFileError(f"record '{name}' is there twice")
            if record.name.startswith(folder):
                found[name] = record
        return found


def wide_values(extra: bytes, values: list[int]) -> list[int]:
    """Replace the values that did not fit in 32 bits by those of the extra field 1."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        body = extra[at + 4 : at + 4 + size]
        at += 4 + size
        if kind == 1:
            wide = [value for (value,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8])]
            needed = sum(value == ALL_ONES for value in values)
            if len(wide) < needed:
                raise CorruptFileError(f"{NO_ARCHIVE}its directory is damaged")
            return [wide.pop(0) if value == ALL_ONES else value for value in values]
    return values
