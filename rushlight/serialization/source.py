"""The bytes of a file that is read: in order or at any place, from disk or mapped into memory.

In: an open file. Out: pieces of it in memory that the caller may write to. Always true: a piece is
never larger than what the file has, so a size that a damaged file claims allocates nothing.
"""

from __future__ import annotations

import io
import mmap as memory_map
import os
from typing import BinaryIO

from rushlight.serialization.errors import CorruptFileError

ALIGNMENT_BYTES = 8


class Source:
    """The bytes of a file from the current position on."""

    def __init__(self, file: BinaryIO, is_mapped: bool = False) -> None:
        """Find out how many bytes there are."""
        if not (hasattr(file, "seekable") and file.seekable()):
            file = io.BytesIO(file.read())
        self.file = file
        self.start = self.position = file.tell()
        self.size_bytes = file.seek(0, os.SEEK_END) - self.position
        file.seek(self.position)
        self.map: memoryview | None = None
        if is_mapped and self.size_bytes > 0:
            # Private pages: the tensors may be written to, the file stays as it is.
            private = memory_map.mmap(file.fileno(), 0, access=memory_map.ACCESS_COPY)
            self.map = memoryview(private)

    @property
    def left_bytes(self) -> int:
        """How many bytes come after the present position."""
        return self.start + self.size_bytes - self.position

    def peek(self, count: int) -> bytes:
        """Return up to `count` bytes from the present position, without moving."""
        at = self.position
        found = bytes(self.take(min(count, self.left_bytes)))
        self.seek(at - self.start)
        return found

    def seek(self, place: int) -> None:
        """Go to a byte, counted from where the source starts."""
        self.position = self.start + place
        if self.map is None:
            self.file.seek(self.position)

    def take_at(self, place: int, count: int) -> bytearray | memoryview:
        """Return bytes from a place, counted from where the source starts."""
        self.seek(place)
        return self.take(count)

    def take(self, count: int) -> bytearray | memoryview:
        """Return the next bytes in memory that the caller may write to."""
        if count > self.left_bytes:
            raise CorruptFileError(f"the file ends {count - self.left_bytes} bytes too early")
        if self.map is not None:
            start = self.position
            self.position += count
            piece = self.map[start : start + count]
            return piece if start % ALIGNMENT_BYTES == 0 else bytearray(piece)
        buffer = bytearray(count)
        view = memoryview(buffer)
        filled = 0
        while filled < count:
            filled += self._read_into(view[filled:], count - filled)
        self.position += count
        return buffer

    def _read_into(self, view: memoryview, missing: int) -> int:
        if hasattr(self.file, "readinto"):
            got = self.file.readinto(view)
        else:
            data = self.file.read(len(view))
            got = len(data)
            view[:got] = data
        if not got:
            raise CorruptFileError(f"the file ends {missing} bytes too early")
        return got
