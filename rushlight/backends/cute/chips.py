"""The chips that CuTe kernels are made for, and the sizes of their tiles, as data."""

from __future__ import annotations

from dataclasses import dataclass

MULTIPLE = 8  # elements of 16 bits in the 16 bytes that TMA wants


@dataclass(frozen=True)
class Chip:
    """`arch`: what the assembler calls it (a: with the instructions of this chip alone)."""

    arch: str
    bm: int = 128
    bn: int = 128
    bk: int = 64
    stages: int = 4


CHIPS = {"sm_90": Chip("sm_90a")}
CHIPS_TEXT = "there are kernels for " + ", ".join(CHIPS)
