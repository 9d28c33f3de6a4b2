"""The file: header, metadata, table of tensors, data.

    "GGUF", version, count of tensors, count of metadata
    metadata       key, type, value              (texts: a length of 8 bytes, then UTF-8)
    tensors        name, sizes, kind, offset     (from the first byte of the data)
    data           aligned to general.alignment

Always true: what a file claims is compared with the bytes that are left before it is read.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.serialization.errors import CorruptFileError, UnsupportedObjectError
from rushlight.serialization.gguf.kinds import KINDS, Kind
from rushlight.serialization.gguf.packed import PackedMatrix, pack
from rushlight.serialization.source import Source
from rushlight.tensors.cells import own_array

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAX_ALIGNMENT = "general.alignment", 32, 1 << 16
MAX_DIMS, MAX_NESTING = 4, 8
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
BOOL, TEXT, ARRAY = 7, 8, 9
TEXT_BYTES, ARRAY_BYTES = 8, 12  # the least a value of the type takes


class Cursor:
    """The numbers and texts at the start of a source, one after the other."""

    def __init__(self, source: Source) -> None:
        """Read from the source's position on."""
        self.source = source

    def number(self, layout: str) -> Any:
        """Return the next number, little-endian."""
        (value,) = struct.unpack("<" + layout, self.source.take(struct.calcsize(layout)))
        return value

    def count(self, least_bytes: int, what: str) -> int:
        """Return a count of things that take at least so many bytes each."""
        count = self.number("Q")
        if count * least_bytes > self.source.left_bytes:
            raise CorruptFileError(
                f"the file claims {count} {what}, and has {self.source.left_bytes} bytes left"
            )
        return count

    def text(self) -> str:
        """Return the next text; wrong UTF-8 (tokens of a vocabulary may be) is kept as it is."""
        return bytes(self.source.take(self.count(1, "bytes of text"))).decode(
            "utf-8", "surrogateescape"
        )

    def value(self, kind: int, nesting: int = 0) -> Any:
        """Return the next value of a type."""
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == BOOL:
            return self.number("B") != 0
        if kind == TEXT:
            return self.text()
        if kind != ARRAY or nesting > MAX_NESTING:
            raise CorruptFileError(f"a value has the type {kind} at depth {nesting}")
        return self._array(nesting)

    def _array(self, nesting: int) -> list[Any]:
        kind = self.number("I")
        if kind in NUMBERS:
            layout = np.dtype(NUMBERS[kind]).newbyteorder("<")
            count = self.count(layout.itemsize, "values")
            return np.frombuffer(self.source.take(count * layout.itemsize), layout).tolist()
        least = {BOOL: 1, TEXT: TEXT_BYTES}.get(kind, ARRAY_BYTES)
        return [self.value(kind, nesting + 1) for _ in range(self.count(least, "values"))]


@dataclass(frozen=True)
class GGUFTensor:
    """One tensor of a file: where it lies, and its elements when they are asked for."""

    name: str
    kind_number: int
    shape: tuple[int, ...]
    start: int  # from the first byte of the file
    source: Source

    @property
    def kind(self) -> Kind:
        """The kind of its blocks."""
        if self.kind_number not in KINDS:
            raise UnsupportedObjectError(
                f"tensor '{self.name}' has blocks of kind {self.kind_number}; known are "
                + ", ".join(kind.name for kind in KINDS.values())
            )
        return KINDS[self.kind_number]

    @property
    def size_bytes(self) -> int:
        """How many bytes its blocks take."""
        return math.prod(self.shape) // self.kind.block_numel * self.kind.block_bytes

    @property
    def blocks(self) -> torch.Tensor:
        """The packed bytes, mapped: uint8 of shape (blocks, bytes of a block)."""
        data = np.frombuffer(self.source.take_at(self.start, self.size_bytes), np.uint8)
        shape = (self.size_bytes // self.kind.block_bytes, self.kind.block_bytes)
        return own_array(data, torch.uint8, shape)

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return plain numbers: float32 of packed blocks, the file's dtype otherwise.

        UnsupportedObjectError: a kind that is not unpacked here.
        """
        kind = self.kind
        if kind.dtype_name is not None:
            data = np.frombuffer(self.source.take_at(self.start, self.size_bytes), np.uint8)
            if data.ctypes.data % kind.block_bytes:
                data = data.copy()
            values = own_array(data, getattr(torch, kind.dtype_name), self.shape)
        elif kind.unpack is not None:
            values = kind.unpack(self.blocks).reshape(self.shape)
        else:
            raise UnsupportedObjectError(
                f"tensor '{self.name}' has blocks of kind {kind.name}, which are not unpacked here"
            )
        return values if dtype is None else values.to(dtype)

    def packed(self) -> PackedMatrix:
        """Return a matrix whose numbers stay packed; they are unpacked inside of its products.

        UnsupportedObjectError: not two dimensions, or blocks other than Q4_0, Q4_1 and Q8_0.
        """
        return pack([self])


class GGUFFile:
    """An open file; its tensors are mapped into memory and read when they are used."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read and check all but the tensors."""
        self.path = os.fspath(path)
        with open(path, "rb") as file:
            try:
                source = Source(file, is_mapped=True)
                self.metadata, self.tensors = read_table(source)
            except CorruptFileError as error:
                raise CorruptFileError(f"{self.path}: {error}") from error
            except struct.error as error:
                raise CorruptFileError(f"{self.path}: {error}") from error

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a tensor by name as plain numbers."""
        return self.tensors[name].dequantize()


def load(path: str | os.PathLike[str], dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
    """Return all tensors of a file as plain numbers; `dtype` converts them.

    The values are computed from the packed blocks when they are used.
    """
    return {name: x.dequantize(dtype) for name, x in GGUFFile(path).tensors.items()}


def read_table(source: Source) -> tuple[dict[str, Any], dict[str, GGUFTensor]]:
    """Return the metadata and the tensors of a file."""
    cursor = Cursor(source)
    magic, version = bytes(source.take(4)), cursor.number("I")
    if magic != MAGIC:
        raise CorruptFileError(f"the file starts with {magic!r}, not with {MAGIC!r}")
    if version not in VERSIONS:
        raise UnsupportedObjectError(
            f"GGUF version {version}; read are {VERSIONS}, on little-endian machines"
        )
    tensor_count = cursor.count(TEXT_BYTES + 4 + 4 + 8, "tensors")
    metadata: dict[str, Any] = {}
    for _ in range(cursor.count(TEXT_BYTES + 4 + 1, "metadata")):
        key = cursor.text()
        if key in metadata:
            raise CorruptFileError(f"the metadata have '{key}' twice")
        metadata[key] = cursor.value(cursor.number("I"))
    found = [read_entry(cursor) for _ in range(tensor_count)]
    data_at = aligned(source.position, metadata)
    tensors = {
        name: GGUFTensor(name, kind, shape, data_at + offset, source)
        for name, shape, kind, offset in found
    }
    if len(tensors) != len(found):
        raise CorruptFileError("two tensors have one name")
    check_places(list(tensors.values()), source.size_bytes)
    return metadata, tensors


def read_entry(cursor: Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Return name, shape, kind and offset of one tensor."""
    name, dims = cursor.text(), cursor.number("I")
    if dims > MAX_DIMS:
        raise CorruptFileError(f"tensor '{name:.100}' has {dims} dimensions, more than {MAX_DIMS}")
    sizes = tuple(cursor.number("Q") for _ in range(dims))
    return name, sizes[::-1], cursor.number("I"), cursor.number("Q")


def aligned(position: int, metadata: dict[str, Any]) -> int:
    """Return where the data starts: the next multiple of the alignment."""
    alignment = metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
    if type(alignment) is not int or not 1 <= alignment <= MAX_ALIGNMENT:
        raise CorruptFileError(f"{ALIGNMENT_KEY} is {alignment!r:.50}")
    return -(-position // alignment) * alignment


def check_places(tensors: list[GGUFTensor], file_bytes: int) -> None:
    """Refuse tensors of impossible sizes, outside of the file, or over each other."""
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda tensor: tensor.start):
        name = tensor.name[:100]
        if tensor.start < end:
            raise CorruptFileError(f"tensor '{name}' overlaps tensor '{before}'")
        end, before = tensor.start, name
        if tensor.kind_number in KINDS:
            last = tensor.shape[-1] if tensor.shape else 1
            if last % tensor.kind.block_numel:
                raise CorruptFileError(
                    f"tensor '{name}' has rows of {last} elements, blocks of {tensor.kind.name} "
                    f"have {tensor.kind.block_numel}"
                )
            end += tensor.size_bytes
        if end > file_bytes:
            raise CorruptFileError(
                f"tensor '{name}' ends at byte {end}; the file has {file_bytes}: it is cut"
            )
