"""The encoding of protocol buffers: fields in, bytes out.

A message is the bytes of its fields, joined. `text(1, "a") + double(2, 0.5)` is a message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable


def varint(value: int) -> bytes:
    """A whole number of 64 bits, 7 bits to a byte."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def integer(field: int, value: int) -> bytes:
    """An integer, a bool or an enumeration."""
    return varint(field << 3) + varint(int(value))


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    """A float of 32 bits."""
    return varint(field << 3 | 5) + struct.pack("<f", value)


def blob(field: int, value: bytes) -> bytes:
    """Bytes, or a message inside of a message."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    return blob(field, value.encode())


def doubles(field: int, values: Iterable[float]) -> bytes:
    """A repeated field, packed."""
    return blob(field, b"".join(struct.pack("<d", value) for value in values))


def singles(field: int, values: Iterable[float]) -> bytes:
    """A repeated field, packed."""
    return blob(field, b"".join(struct.pack("<f", value) for value in values))
