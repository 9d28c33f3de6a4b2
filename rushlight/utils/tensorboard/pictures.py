"""Arrays of colours as PNG files, in memory."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of bytes (height, width, 1, 3 or 4 channels)."""
    height, width, channels = pixels.shape
    colour = {1: 0, 3: 2, 4: 6}[channels]
    lines = np.concatenate(
        [np.zeros((height, 1), np.uint8), pixels.reshape(height, width * channels)], axis=1
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    packed = zlib.compress(np.ascontiguousarray(lines).tobytes())
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
    )


def to_pixels(image: Any, dataformats: str) -> np.ndarray:
    """Bytes (height, width, channels) of one image or of a grid of several.

    image: numbers from 0 to 1, or bytes. dataformats: the order of its dimensions, as "CHW".
    """
    array = np.asarray(image)
    form = dataformats.upper()
    if array.ndim != len(form) or len(set(form)) != len(form) or set(form) - set("NCHW"):
        raise ValueError(
            f"dataformats: got {dataformats!r} for an image of shape {array.shape}; allowed are "
            "orders of N, C, H, W with one letter for each dimension"
        )
    if array.dtype != np.uint8:
        array = np.clip(array.astype(np.float64) * 255.0, 0, 255).astype(np.uint8)
    for letter in "NC":
        if letter not in form:
            array, form = array[None], letter + form
    batch = array.transpose([form.index(letter) for letter in "NHWC"])
    if batch.shape[-1] == 2:
        raise ValueError("image: got 2 channels, allowed are 1, 3 and 4")
    if batch.shape[-1] == 1:
        batch = batch.repeat(3, -1)
    return _grid(batch)


def _grid(batch: np.ndarray) -> np.ndarray:
    number, height, width, channels = batch.shape
    columns = min(number, 8)
    rows = -(-number // columns)
    sheet = np.zeros((rows * height, columns * width, channels), np.uint8)
    for i, image in enumerate(batch):
        y, x = divmod(i, columns)
        sheet[y * height : (y + 1) * height, x * width : (x + 1) * width] = image
    return sheet
