"""Objects sent between processes: small ones through the pipe, large memory by shared files.

`Mailbox(connection).send(value)` pickles; the memory of arrays and tensors stays outside of the
pickle. What is more than a few pages is written to a file without a name (memfd where there is
one), whose descriptor goes through the pipe once; the receiver copies, and says with its next
message that the file may be written again. So a batch is copied once by each side, with memory
that is there already in between; a message in the pipe is always small (nobody waits for the other
side to read); and a process that dies leaves no file behind.
"""

from __future__ import annotations

import io
import itertools
import mmap
import os
import pickle
import socket
import tempfile
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import rushlight as torch

INLINE_BYTES = 16 * 1024
ALIGNMENT = 64
CAN_SEND_FILES = hasattr(socket, "AF_UNIX") and hasattr(reduction, "send_handle")


class Mailbox:
    """One end of a duplex connection; both ends send and receive with a Mailbox."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._numbers = itertools.count()
        self._written: dict[int, mmap.mmap] = {}  # files of this side, by number
        self._free: list[int] = []  # of those, the ones that nobody reads any more
        self._read: dict[int, mmap.mmap] = {}  # files of the other side
        self._done: list[int] = []  # of those, the ones that were read
        self._dropped: list[int] = []  # files of this side that the other may forget

    def send(self, value: Any) -> None:
        """Send a picklable object; `receive` on the other side returns it."""
        parts, are_tensors = pickled(value)
        if not CAN_SEND_FILES or sum(part.nbytes for part in parts) <= INLINE_BYTES:
            self._send_header(None, [bytes(part) for part in parts])
            return
        spans, end = [], 0
        for part, is_tensor in zip(parts, are_tensors, strict=True):
            start = -(-end // ALIGNMENT) * ALIGNMENT
            end = start + part.nbytes
            spans.append((start, end, is_tensor))
        number, handle = self._file_of(end)
        try:
            for part, (start, stop, _) in zip(parts, spans, strict=True):
                self._written[number][start:stop] = part
            size = None if handle is None else len(self._written[number])
            self._send_header((number, size), spans)
            if handle is not None:
                reduction.send_handle(self.connection, handle, None)
        finally:
            if handle is not None:
                os.close(handle)

    def _send_header(self, file: tuple[int, int | None] | None, parts: list[Any]) -> None:
        header = pickle.dumps((self._done, self._dropped, file, parts))
        self._done, self._dropped = [], []
        self.connection.send_bytes(header)

    def _file_of(self, size: int) -> tuple[int, int | None]:
        """A file to write, and its descriptor if the other side does not have it yet."""
        fitting = [n for n in self._free if size <= len(self._written[n])]
        if fitting:
            number = min(fitting, key=lambda n: len(self._written[n]))
            self._free.remove(number)
            return number, None
        for number in self._free:  # too small for what is sent now
            self._written.pop(number).close()
        self._dropped, self._free = self._dropped + self._free, []
        handle = nameless_file()
        os.ftruncate(handle, size)
        number = next(self._numbers)
        self._written[number] = mmap.mmap(handle, size)
        return number, handle

    def receive(self) -> Any:
        """Return what the other side sent; EOFError when it is gone."""
        done, dropped, file, parts = pickle.loads(self.connection.recv_bytes())
        for number in dropped:
            self._read.pop(number).close()
        self._free += done
        if file is None:
            data, *buffers = parts
            return pickle.loads(data, buffers=[bytearray(buffer) for buffer in buffers])
        number, size = file
        if size is not None:
            handle = reduction.recv_handle(self.connection)
            self._read[number] = mmap.mmap(handle, size)
            os.close(handle)
        with memoryview(self._read[number]) as memory:
            views = [memory[start:end] for start, end, _ in parts]
            # A tensor copies what it is made from; other objects may keep it.
            buffers = [
                view if is_tensor else bytearray(view)
                for view, (_, _, is_tensor) in zip(views, parts, strict=True)
            ]
            value = pickle.loads(buffers[0], buffers=buffers[1:])
            del buffers
            for view in views:
                view.release()
        self._done.append(number)
        return value

    def close(self) -> None:
        """Close the connection and forget all files."""
        self.connection.close()
        self._read.clear()
        self._written.clear()


class Pickler(pickle.Pickler):
    """Keeps the memory of arrays outside, and notes which of it belongs to tensors."""

    def __init__(self, file: Any) -> None:
        self.outside: list[pickle.PickleBuffer] = []
        self.of_tensors: set[int] = set()
        super().__init__(file, 5, buffer_callback=self.outside.append)

    def reducer_override(self, obj: Any) -> Any:
        """Pickle a tensor as it wants to be, and look at its memory."""
        if not isinstance(obj, torch.Tensor):
            return NotImplemented
        reduced = obj.__reduce_ex__(5)
        self.of_tensors.update(id(x) for x in reduced[1] if isinstance(x, pickle.PickleBuffer))
        return reduced


def pickled(value: Any) -> tuple[list[memoryview], list[bool]]:
    """The pickle and the memory outside of it, and for each if it belongs to a tensor."""
    file = io.BytesIO()
    pickler = Pickler(file)
    pickler.dump(value)
    parts = [file.getbuffer(), *(buffer.raw() for buffer in pickler.outside)]
    return parts, [True, *(id(buffer) in pickler.of_tensors for buffer in pickler.outside)]


def nameless_file() -> int:
    """A descriptor of a file that only its holders can see; in memory where the system can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rushlight", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
