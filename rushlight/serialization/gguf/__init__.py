"""GGUF files: metadata, packed blocks, and tensors of plain numbers."""

from rushlight.serialization.gguf.kinds import KINDS, Kind
from rushlight.serialization.gguf.packed import PackedMatrix, pack, pack_blocks
from rushlight.serialization.gguf.reader import GGUFFile, GGUFTensor, load

__all__ = ["KINDS", "GGUFFile", "GGUFTensor", "Kind", "PackedMatrix", "load", "pack", "pack_blocks"]
