"""The values of a key-value store, and the packets in which requests for them travel.

In: the name of an operation and its arguments, as bytes. Out: bytes, or None for "not there".
Always true: one operation at a time; who waits is woken by every change.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Sequence

COUNT, LENGTH = struct.Struct("<I"), struct.Struct("<I")
MOST_PARTS, MOST_BYTES = 1 << 16, 1 << 30
Part = bytes


class StoreTable:
    """What a store holds. All operations take and give bytes, so they can be sent."""

    CHANGING = frozenset(("set", "add", "append", "compare_set", "delete", "push", "take"))

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.queues: dict[bytes, list[bytes]] = {}
        self.changed = threading.Condition()

    def run(self, name: str, *parts: Part) -> bytes | None:
        """Do the operation `name`."""
        with self.changed:
            result = getattr(self, f"_{name}")(*parts)
            if name in self.CHANGING:
                self.changed.notify_all()
            return result

    def wait_until(self, name: str, parts: Sequence[Part], seconds: float) -> bytes | None:
        """The result of the operation once it is not None; None after `seconds`."""
        end = time.monotonic() + seconds
        with self.changed:
            while (result := getattr(self, f"_{name}")(*parts)) is None:
                left = end - time.monotonic()
                if left <= 0 or not self.changed.wait(left):
                    return getattr(self, f"_{name}")(*parts)
            self.changed.notify_all()
            return result

    def _set(self, key: bytes, value: bytes) -> bytes:
        self.values[key] = value
        return b""

    def _get(self, key: bytes) -> bytes | None:
        return self.values.get(key)

    def _add(self, key: bytes, amount: bytes) -> bytes:
        self.values[key] = b"%d" % (int(self.values.get(key, b"0")) + int(amount))
        return self.values[key]

    def _append(self, key: bytes, value: bytes) -> bytes:
        self.values[key] = self.values.get(key, b"") + value
        return b""

    def _compare_set(self, key: bytes, expected: bytes, desired: bytes) -> bytes:
        found = self.values.get(key)
        if found is None and expected:
            return expected
        if found is not None and found != expected:
            return found
        self.values[key] = desired
        return desired

    def _delete(self, key: bytes) -> bytes:
        return b"1" if self.values.pop(key, None) is not None else b""

    def _count(self) -> bytes:
        return b"%d" % len(self.values)

    def _keys(self) -> bytes:
        return b"".join(pack([key]) for key in self.values)

    def _check(self, *keys: bytes) -> bytes | None:
        return b"1" if all(key in self.values for key in keys) else None

    def _push(self, queue: bytes, value: bytes) -> bytes:
        self.queues.setdefault(queue, []).append(value)
        return b""

    def _take(self, queue: bytes) -> bytes | None:
        waiting = self.queues.get(queue)
        return waiting.pop(0) if waiting else None

    def _waiting(self, queue: bytes) -> bytes:
        return b"%d" % len(self.queues.get(queue, ()))


def pack(parts: Sequence[Part]) -> bytes:
    """The parts as one packet: their number, then each with its length before it."""
    body = b"".join(LENGTH.pack(len(part)) + part for part in parts)
    return COUNT.pack(len(parts)) + body


def unpack(read: Callable[[int], bytes]) -> list[bytes]:
    """The parts of the next packet; `read(n)` gives n bytes or raises EOFError."""
    count = COUNT.unpack(read(COUNT.size))[0]
    if count > MOST_PARTS:
        raise ValueError(f"a packet of {count} parts: this is no packet of a store")
    parts = []
    for _ in range(count):
        size = LENGTH.unpack(read(LENGTH.size))[0]
        if size > MOST_BYTES:
            raise ValueError(f"a part of {size} bytes: this is no packet of a store")
        parts.append(read(size))
    return parts
