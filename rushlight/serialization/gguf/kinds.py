"""The kinds of tensors in a GGUF file: how many elements share a block of how many bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import rushlight as torch
from rushlight.serialization.gguf import unpack


@dataclass(frozen=True)
class Kind:
    """One kind. Plain numbers have a dtype; packed ones a function, if they can be unpacked."""

    name: str
    block_numel: int
    block_bytes: int
    dtype_name: str | None = None
    unpack: Callable[[torch.Tensor], torch.Tensor] | None = None


KINDS: dict[int, Kind] = {
    0: Kind("F32", 1, 4, "float32"),
    1: Kind("F16", 1, 2, "float16"),
    2: Kind("Q4_0", 32, 18, unpack=unpack.q4_0),
    3: Kind("Q4_1", 32, 20, unpack=unpack.q4_1),
    6: Kind("Q5_0", 32, 22, unpack=unpack.q5_0),
    7: Kind("Q5_1", 32, 24, unpack=unpack.q5_1),
    8: Kind("Q8_0", 32, 34, unpack=unpack.q8_0),
    10: Kind("Q2_K", 256, 84),
    11: Kind("Q3_K", 256, 110),
    12: Kind("Q4_K", 256, 144, unpack=unpack.q4_k),
    13: Kind("Q5_K", 256, 176, unpack=unpack.q5_k),
    14: Kind("Q6_K", 256, 210, unpack=unpack.q6_k),
    15: Kind("Q8_K", 256, 292),
    24: Kind("I8", 1, 1, "int8"),
    25: Kind("I16", 1, 2, "int16"),
    26: Kind("I32", 1, 4, "int32"),
    27: Kind("I64", 1, 8, "int64"),
    28: Kind("F64", 1, 8, "float64"),
    30: Kind("BF16", 1, 2, "bfloat16"),
}
