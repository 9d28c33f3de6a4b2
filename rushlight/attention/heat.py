"""Pictures of masks as PNG files: how much of each cell is kept, from dark (nothing) to bright.

In: a matrix of numbers 0 ... 1. Out: bytes of a PNG (8 bits a channel, no library).
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

# From nothing to all: dark blue, teal, yellow. Between them colours are mixed.
COLOURS = np.array([[33, 26, 62], [31, 117, 124], [94, 182, 103], [250, 224, 68]], np.float64)


def png_of(density: np.ndarray, scale: int = 1) -> bytes:
    """A picture with `scale` x `scale` pixels per number."""
    steps = np.clip(density, 0, 1) * (len(COLOURS) - 1)
    low = np.minimum(steps.astype(int), len(COLOURS) - 2)
    share = (steps - low)[..., None]
    pixels = COLOURS[low] * (1 - share) + COLOURS[low + 1] * share
    pixels = pixels.round().astype(np.uint8).repeat(scale, 0).repeat(scale, 1)
    height, width = pixels.shape[:2]
    # Each row begins with the number of its filter: none.
    rows = np.concatenate((np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)), axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"".join(
        (b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", head),
         _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)), _chunk(b"IEND", b""))
    )  # fmt: skip


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def shrunk(values: np.ndarray, most: int) -> np.ndarray:
    """Means over equal cells, at most `most` each way."""
    steps = [max(1, -(-n // most)) for n in values.shape]
    edges = [np.arange(0, n, step) for n, step in zip(values.shape, steps, strict=True)]
    sums = np.add.reduceat(np.add.reduceat(values.astype(np.float64), edges[0], 0), edges[1], 1)
    sizes = [np.diff(np.append(e, n)) for e, n in zip(edges, values.shape, strict=True)]
    return sums / np.outer(*sizes)
