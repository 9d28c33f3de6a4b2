"""The chips that CuTe kernels are made for, the sizes of their tiles, and what a chip has room for.

In: names of chips, sizes. Out: data, bytes and columns, reasons why something does not fit. Always
true: nothing of cutlass is needed to say so.
"""

from __future__ import annotations

from dataclasses import dataclass

MULTIPLE = 8  # elements of 16 bits in the 16 bytes that TMA wants
SHARED_BYTES = 227 * 1024  # of a group, on both chips
BARRIER_BYTES = 1024  # what the rings' barriers and alignment may take of them
ROWS_OF_TENSOR_MEMORY, COLUMNS_OF_TENSOR_MEMORY = 128, 512  # of 32 bits
LEAST_COLUMNS = 32


@dataclass(frozen=True)
class Chip:
    """`arch`: what the assembler calls it (a: with the instructions of this chip alone).

    kernels  which kernels: "wgmma" (sums in registers) or "umma" (sums in tensor memory)
    """

    arch: str
    kernels: str
    bm: int = 128
    bn: int = 128
    bk: int = 64
    stages: int = 4


CHIPS = {"sm_90": Chip("sm_90a", "wgmma"), "sm_100": Chip("sm_100a", "umma", bn=256)}
CHIPS_TEXT = "there are kernels for " + ", ".join(CHIPS)


def tensor_columns(used: int) -> int:
    """How many columns are taken for `used` ones: a power of two from 32 up."""
    columns = LEAST_COLUMNS
    while columns < used:
        columns *= 2
    return columns


def product_bytes(chip: Chip) -> int:
    """Shared memory of a product: a ring of tiles of both operands, of 16 bits."""
    return chip.stages * 2 * chip.bk * (chip.bm + chip.bn)


def room(chip: Chip, shared_bytes: int, columns: int = 0) -> list[str]:
    """Why a kernel does not fit on the chip; nothing: it does. `columns`: where sums are in tensor
    memory."""
    reasons = []
    if shared_bytes + BARRIER_BYTES > SHARED_BYTES:
        reasons.append(f"{shared_bytes} bytes of shared memory, {chip.arch} has {SHARED_BYTES}")
    if chip.kernels == "umma" and tensor_columns(columns) > COLUMNS_OF_TENSOR_MEMORY:
        most = COLUMNS_OF_TENSOR_MEMORY
        reasons.append(f"{columns} columns of tensor memory, {chip.arch} has {most}")
    return reasons
