"""The memories of an imitated group: global buffers, shared memory, barriers in it, tensor memory.

In: addresses, bytes. Out: bytes. Always true: what lies outside of a buffer is an error; memory
that nothing was written to is NaN in each of the kernels' float types.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

SHARED_BASE = 1024  # where dynamic shared memory starts: at a multiple of 1024
SHARED_BYTES = 228 * 1024
ROWS, COLUMNS = 128, 512  # of tensor memory
FAR = 1 << 36  # bytes between the addresses of buffers
UNSET = 0xFF  # bytes of it are NaN in float32, float16 and bfloat16


class Wrong(Exception):
    """The kernel did what PTX does not allow."""


class Stuck(Wrong):
    """All threads wait and nothing is on its way."""


@dataclass
class Barrier:
    """An mbarrier: `arrivals` of a phase, how many of them and how many bytes are missing."""

    arrivals: int
    missing: int
    bytes: int = 0
    phase: int = 0

    def arrive(self, count: int = 1) -> None:
        self.missing -= count
        if self.missing < 0:
            raise Wrong("a barrier has more arrivals than it was made for")
        self._turn()

    def expect(self, size: int) -> None:
        self.bytes += size

    def land(self, size: int) -> None:
        self.bytes -= size
        self._turn()

    def is_over(self, parity: int) -> bool:
        """Is the phase of this parity complete?"""
        return self.phase % 2 != parity

    def _turn(self) -> None:
        if self.missing == 0 and self.bytes == 0:
            self.phase += 1
            self.missing = self.arrivals


@dataclass
class Memory:
    """`buffers`: flat arrays of bytes; number i is at FAR * (i + 1)."""

    buffers: list[np.ndarray]
    shared: np.ndarray = field(
        default_factory=lambda: np.full(SHARED_BASE + SHARED_BYTES, UNSET, np.uint8)
    )
    barriers: dict[int, Barrier] = field(default_factory=dict)
    tensor: np.ndarray = field(
        default_factory=lambda: np.full((ROWS, COLUMNS), 0xFFFFFFFF, np.uint32)
    )
    taken: int = 0  # columns of tensor memory

    def barrier(self, address: int) -> Barrier:
        if address not in self.barriers:
            raise Wrong(f"there is no barrier at {address}")
        return self.barriers[address]

    def place(self, space: str, addresses: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(memory, places of bytes in it) of accesses of `size` bytes; all in one buffer."""
        if np.any(addresses % size):
            raise Wrong(f"an address is no multiple of {size}")
        memory, places = self.shared, addresses.astype(np.int64)
        if space == "global":
            numbers = np.unique(places // FAR)
            if len(numbers) != 1 or not 0 < numbers[0] <= len(self.buffers):
                raise Wrong(f"no buffer, or more than one: {numbers}")
            memory, places = self.buffers[numbers[0] - 1], places % FAR
        if places.max() + size > len(memory):
            raise Wrong(f"byte {places.max()} of {space} memory of {len(memory)}")
        return memory, places[:, None] + np.arange(size)

    def load(self, space: str, addresses: np.ndarray, size: int) -> np.ndarray:
        memory, places = self.place(space, addresses, size)
        return memory[places].view(f"<u{size}")[:, 0]

    def store(self, space: str, addresses: np.ndarray, values: np.ndarray, size: int) -> None:
        memory, places = self.place(space, addresses, size)
        memory[places] = values.astype(f"<u{size}")[:, None].view(np.uint8)

    def take(self, columns: int) -> int:
        """Columns of tensor memory; where they start."""
        if columns < 32 or columns & (columns - 1) or self.taken + columns > COLUMNS:
            raise Wrong(f"{columns} columns of tensor memory, {self.taken} are taken")
        start, self.taken = self.taken, self.taken + columns
        return start

    def give(self, columns: int) -> None:
        self.taken -= columns
        if self.taken < 0:
            raise Wrong("more tensor memory is given back than was taken")
