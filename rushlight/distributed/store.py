"""Key-value stores, by which processes find each other: in memory, in a file, with a prefix.

The one over a network is in `tcp_store.py`. A store has to say two things: how one operation of a
`StoreTable` is done (`_run`), and how to wait for one (`_wait`).
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, BinaryIO

from rushlight.distributed.errors import DistStoreError, QueueEmptyError
from rushlight.distributed.store_table import StoreTable, pack, unpack

POLL_SECONDS = 0.01
DEFAULT_TIMEOUT = timedelta(seconds=300)


def as_bytes(value: Any) -> bytes:
    """Keys and values as a store holds them: text becomes UTF-8."""
    return value if isinstance(value, bytes) else str(value).encode()


class Store:
    """A table of bytes under text keys, shared by processes.

    get(key) waits for the key, `timeout` at most, and raises DistStoreError then.
    """

    timeout = DEFAULT_TIMEOUT

    def _run(self, name: str, *parts: bytes) -> bytes | None:
        raise NotImplementedError(f"{type(self).__name__} has no operations")

    def _wait(self, name: str, parts: Sequence[bytes], seconds: float) -> bytes | None:
        raise NotImplementedError(f"{type(self).__name__} cannot wait")

    def _timed_out(self, keys: Sequence[str], seconds: float) -> DistStoreError:
        return DistStoreError("Wait timeout")

    def _waited(self, name: str, keys: Sequence[str], timeout: timedelta | None = None) -> bytes:
        seconds = (self.timeout if timeout is None else timeout).total_seconds()
        found = self._wait(name, [as_bytes(key) for key in keys], seconds)
        if found is None:
            raise self._timed_out(keys, seconds)
        return found

    def set_timeout(self, timeout: timedelta) -> None:
        """How long `get` and `wait` wait from now on."""
        self.timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Set the value, whatever there was."""
        self._run("set", as_bytes(key), as_bytes(value))

    def get(self, key: str) -> bytes:
        """The value, once it is there."""
        return self._waited("get", [key])

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, and give its new value."""
        return int(self._run("add", as_bytes(key), b"%d" % amount) or 0)

    def append(self, key: str, value: str | bytes) -> None:
        """Put the value behind the one that is there."""
        self._run("append", as_bytes(key), as_bytes(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Set the value where it is the expected one ("" where there is none); gives the value."""
        parts = (as_bytes(key), as_bytes(expected_value), as_bytes(desired_value))
        return self._run("compare_set", *parts) or b""

    def delete_key(self, key: str) -> bool:
        """Was there such a key?"""
        return self._run("delete", as_bytes(key)) == b"1"

    def num_keys(self) -> int:
        """The number of keys."""
        return int(self._run("count") or 0)

    def list_keys(self) -> list[str]:
        """All keys."""
        data = io.BytesIO(self._run("keys") or b"")
        keys = []
        while data.tell() < len(data.getbuffer()):
            keys += [key.decode() for key in unpack(data.read)]
        return keys

    def check(self, keys: Sequence[str]) -> bool:
        """Are all these keys there?"""
        return self._run("check", *map(as_bytes, keys)) == b"1"

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all these keys are there."""
        self._waited("check", keys, timeout)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of all these keys, once they are there."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Set each key to its value; ValueError where their numbers differ."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """A value more in a queue."""
        self._run("push", as_bytes(key), as_bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """The oldest value of a queue; QueueEmptyError when there is none and `block` is False."""
        if block:
            return self._waited("take", [key])
        found = self._run("take", as_bytes(key))
        if found is None:
            raise QueueEmptyError("queue is empty")
        return found

    def queue_len(self, key: str) -> int:
        """How many values wait in a queue."""
        return int(self._run("waiting", as_bytes(key)) or 0)

    def has_extended_api(self) -> bool:
        """True: there are `append`, `multi_get`, `multi_set`."""
        return True

    def clone(self) -> Store:
        """The same store: it can be used by several threads."""
        return self


class HashStore(Store):
    """A store of this process, for its threads.

    >>> store = HashStore()
    >>> store.set("a", "1")
    >>> store.get("a"), store.add("n", 2)
    (b'1', 2)
    """

    def __init__(self) -> None:
        self._table = StoreTable()

    def _run(self, name: str, *parts: bytes) -> bytes | None:
        return self._table.run(name, *parts)

    def _wait(self, name: str, parts: Sequence[bytes], seconds: float) -> bytes | None:
        return self._table.wait_until(name, parts, seconds)


class FileStore(Store):
    """A store in a file that processes of one machine share: a log of what was changed.

    file_name: made when it is not there. world_size: how many use it; -1: any number.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self.path, self._world_size = file_name, world_size
        self._table, self._read_to = StoreTable(), 0
        with open(self.path, "ab"):
            pass

    @contextlib.contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        with open(self.path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield file
            finally:
                file.flush()
                fcntl.flock(file, fcntl.LOCK_UN)

    def _catch_up(self, file: BinaryIO) -> None:
        file.seek(self._read_to)
        end = os.fstat(file.fileno()).st_size
        while file.tell() < end:
            name, *parts = unpack(file.read)
            self._table.run(name.decode(), *parts)
        self._read_to = file.tell()

    def _run(self, name: str, *parts: bytes) -> bytes | None:
        with self._locked() as file:
            self._catch_up(file)
            if name in StoreTable.CHANGING:
                file.write(pack([name.encode(), *parts]))
                self._read_to = file.tell()
            return self._table.run(name, *parts)

    def _wait(self, name: str, parts: Sequence[bytes], seconds: float) -> bytes | None:
        end = time.monotonic() + seconds
        while (found := self._run(name, *parts)) is None and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
        return found


class PrefixStore(Store):
    """A part of another store: each key is prefixed."""

    def __init__(self, prefix: str, store: Store) -> None:
        self.prefix, self.underlying_store = prefix, store
        self.timeout = store.timeout

    def _named(self, name: str, parts: Sequence[bytes]) -> list[bytes]:
        start = f"{self.prefix}/".encode()
        if name == "check":
            return [start + key for key in parts]
        return [start + part if i == 0 else part for i, part in enumerate(parts)]

    def _run(self, name: str, *parts: bytes) -> bytes | None:
        return self.underlying_store._run(name, *self._named(name, parts))

    def _wait(self, name: str, parts: Sequence[bytes], seconds: float) -> bytes | None:
        return self.underlying_store._wait(name, self._named(name, parts), seconds)

    def _timed_out(self, keys: Sequence[str], seconds: float) -> DistStoreError:
        names = [f"{self.prefix}/{key}" for key in keys]
        return self.underlying_store._timed_out(names, seconds)
