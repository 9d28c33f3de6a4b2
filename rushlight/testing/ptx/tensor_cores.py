"""Operands and products of tensor cores, as their descriptors say: wgmma, tcgen05, and TMA.

In: descriptors, shared memory. Out: matrices of float32. Always true: layouts are the ones of the
PTX manual (asynchronous warpgroup level matrix, tensor core 5th generation); products are rounded
to float32 once for each instruction, which no chip promises: compare with a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from rushlight.testing.ptx.memory import Memory, Wrong

LINE = 8  # elements of 16 bits in 16 bytes
K = 16  # of an instruction
# The field of a descriptor -> how many bytes of a row are swizzled.
SWIZZLES = {"wgmma": {0: 16, 1: 128, 2: 64, 3: 32}, "umma": {0: 16, 2: 128, 4: 64, 6: 32}}
KINDS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def swizzled(places: np.ndarray, width: int) -> np.ndarray:
    """Bytes' addresses with 16 byte pieces of `width` bytes exchanged, row by row."""
    pieces = width // 16
    return places ^ (((places >> 7) & (pieces - 1)) << 4)


@dataclass(frozen=True)
class Descriptor:
    """A matrix in shared memory; distances in bytes. `swizzle`: bytes, 16 for none."""

    start: int
    leading: int
    stride: int
    swizzle: int

    @staticmethod
    def of(bits: int, chip: str) -> Descriptor:
        swizzle = SWIZZLES[chip][bits >> (62 if chip == "wgmma" else 61)]
        if chip == "umma" and (bits >> 46) & 7 != 1:
            raise Wrong("bits 46-48 of a descriptor are not 001")
        start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        if (bits >> 49) & 7:
            raise Wrong("the imitation knows base offsets of 0 alone")
        return Descriptor(start, leading, stride, swizzle)

    def places(self, rows: int, is_k_major: bool) -> np.ndarray:
        """Addresses of elements (row, k)."""
        row, k = np.meshgrid(np.arange(rows), np.arange(K), indexing="ij")
        width = self.swizzle // 2  # elements
        if is_k_major:
            inner = k // LINE * (self.leading if self.swizzle == 16 else 16) + k % LINE * 2
            offset = row % 8 * self.swizzle + row // 8 * self.stride + inner
        elif self.swizzle == 16:
            offset = row % 8 * 2 + row // 8 * self.stride + k % 8 * 16 + k // 8 * self.leading
        else:
            offset = row % width * 2 + row // width * self.leading
            offset = offset + k % 8 * self.swizzle + k // 8 * self.stride
        # The first row of a pattern lies where the pattern starts: base offset 0 says so.
        if (self.start >> 7) & (self.swizzle // 16 - 1):
            raise Wrong(f"a pattern of {8 * self.swizzle} bytes starts at {self.start}")
        return swizzled(self.start + offset, self.swizzle)

    def matrix(self, memory: Memory, rows: int, is_k_major: bool, kind: str) -> np.ndarray:
        """(rows, K) in float32."""
        places = self.places(rows, is_k_major)
        bits = memory.shared[places[..., None] + np.arange(2)].view("<u2")[..., 0]
        return as_float(bits, kind)


def as_float(bits: np.ndarray, kind: str) -> np.ndarray:
    return np.ascontiguousarray(bits.astype(np.uint16)).view(KINDS[kind]).astype(np.float32)


def times(a: np.ndarray, b: np.ndarray, acc: np.ndarray | None) -> np.ndarray:
    """acc + a @ b.T, rounded once."""
    found = a.astype(np.float64) @ b.astype(np.float64).T
    return (found if acc is None else found + acc).astype(np.float32)


@dataclass(frozen=True)
class TensorMap:
    """What TMA knows of a matrix: a buffer, where it starts (elements of 16 bits), the sizes and
    strides of its dimensions (the first has stride 1), the box that one instruction fetches."""

    buffer: int
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return 2 * int(np.prod(self.box))

    def fetch(self, memory: Memory, place: int, corner: list[int]) -> None:
        """A box to shared memory, 0 where there is no matrix."""
        if len(corner) != len(self.box):
            raise Wrong(f"{len(corner)} coordinates for {len(self.box)} dimensions")
        axes = np.meshgrid(*(np.arange(size) for size in self.box), indexing="ij")
        at, inside = np.int64(self.offset), np.bool_(True)
        inner = np.int64(0)
        for number in reversed(range(len(self.box))):
            whole = axes[number] + corner[number]
            inside = inside & (whole >= 0) & (whole < self.sizes[number])
            at = at + whole * self.strides[number]
            inner = inner * self.box[number] + axes[number]
        source = memory.buffers[self.buffer].view("<u2")
        values = np.where(inside, source[np.where(inside, at, 0)], 0).astype(np.uint16)
        width = 2 * self.box[0]
        if width not in (16, 32, 64, 128) or place % 128:
            raise Wrong(f"a box of {width} bytes to {place}")
        to = swizzled(place + 2 * inner, width)
        memory.shared[to[..., None] + np.arange(2)] = values[..., None].view(np.uint8)


@dataclass(frozen=True)
class Umma:
    """A tcgen05.mma: D (a column of tensor memory) += A (tensor memory, or shared) @ B.T.
    Row r of A or D is lane r."""

    target: int
    a: Descriptor | int
    b: Descriptor
    bits: int  # the instruction descriptor
    adds: bool

    def work(self, memory: Memory) -> None:
        bits = self.bits
        kind = {0: "f16", 1: "bf16"}[bits >> 7 & 7]
        m, n = (bits >> 24 & 31) << 4, (bits >> 17 & 63) << 3
        if (bits >> 4 & 3) != 1 or (bits >> 10 & 7) != (bits >> 7 & 7) or m != 128:
            raise Wrong(f"an instruction that is not imitated: {bits:#x}")
        b = self.b.matrix(memory, n, not bits >> 16 & 1, kind)
        if isinstance(self.a, Descriptor):
            a = self.a.matrix(memory, m, not bits >> 15 & 1, kind)
        else:
            words = np.ascontiguousarray(memory.tensor[:, self.a : self.a + K // 2])
            a = as_float(words.view("<u2"), kind)
        if self.target + n > memory.taken:
            raise Wrong(f"columns up to {self.target + n} of tensor memory, {memory.taken} taken")
        to = memory.tensor[:, self.target : self.target + n]
        acc = np.ascontiguousarray(to).view(np.float32) if self.adds else None
        to[:] = times(a, b, acc).view(np.uint32)
