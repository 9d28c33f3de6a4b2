"""Event files: records of a length and bytes, each with a checksum (CRC-32C, masked)."""

from __future__ import annotations

import os
import socket
import struct
import time
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from rushlight.utils.tensorboard.messages import blob, double, integer, text

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, with its bits turned
_numbers = count()


def _table() -> list[int]:
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return found


_TABLE = _table()


def masked_checksum(data: bytes) -> int:
    """CRC-32C of the bytes, turned by 15 bits and moved, as the format says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class RecordWriter:
    """Writes records to an open file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        """One record."""
        length = struct.pack("<Q", len(data))
        self._file.write(length + struct.pack("<I", masked_checksum(length)))
        self._file.write(data + struct.pack("<I", masked_checksum(data)))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class EventFile:
    """The event file of one run: `events.out.tfevents.<time>.<host>.<process>.<number>`."""

    def __init__(self, folder: Any, suffix: str = "") -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self.path = self.folder / f"events.out.tfevents.{stamp}{suffix}"
        self._records: RecordWriter | None = RecordWriter(self.path.open("wb"))
        self.write(text(3, "brain.Event:2"), None, None)
        self.flush()

    def write(self, event: bytes, step: int | None, wall_time: float | None) -> None:
        """An event with its time and step."""
        if self._records is None:  # written to again after close(): the file goes on
            self._records = RecordWriter(self.path.open("ab"))
        head = double(1, time.time() if wall_time is None else wall_time)
        self._records.write(head + (b"" if step is None else integer(2, int(step))) + event)

    def write_summary(self, values: bytes, step: int | None, wall_time: float | None) -> None:
        """The values of a summary."""
        self.write(blob(5, values), step, wall_time)

    def write_session_start(self, step: int) -> None:
        """What was written before this, from `step` on, is no longer shown."""
        self.write(blob(7, integer(1, 1)), step, None)

    def flush(self) -> None:
        if self._records is not None:
            self._records.flush()

    def close(self) -> None:
        if self._records is not None:
            self._records.close()
            self._records = None
