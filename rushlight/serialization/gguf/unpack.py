"""From packed blocks to numbers, one function per kind of block.

In: uint8 of shape (blocks, bytes of a block). Out: float32 of shape (blocks, elements of a block),
as a lazy value: a program that only multiplies with it reads the packed bytes.
Names as in ggml: d scale of a block, m minimum, q quants, qh their high bits.
"""

from __future__ import annotations

import rushlight as torch


def half(blocks: torch.Tensor, at: int) -> torch.Tensor:
    """Return the float16 at a byte of each block, as a column of float32."""
    return half_bits(blocks, at).to(torch.float32)


def half_bits(blocks: torch.Tensor, at: int) -> torch.Tensor:
    """Return the float16 at a byte of each block (..., bytes), as a column (..., 1) of float16."""
    low, high = wide(blocks[..., at : at + 1]), wide(blocks[..., at + 1 : at + 2])
    return (low + high * 256).to(torch.uint16).view(torch.float16)


def wide(values: torch.Tensor) -> torch.Tensor:
    """Bytes as int32, in which shifts lose nothing."""
    return values.to(torch.int32)


def signed(values: torch.Tensor) -> torch.Tensor:
    """Bytes as the int8 they hold."""
    return values.view(torch.int8).to(torch.int32)


def nibbles(packed: torch.Tensor) -> torch.Tensor:
    """The low halves of all bytes, then the high halves."""
    values = wide(packed)
    return torch.cat([values & 15, values >> 4], -1)


def high_bits(blocks: torch.Tensor, at: int) -> torch.Tensor:
    """32 bits of a little-endian word, each as 0 or 16."""
    values = wide(blocks[:, at : at + 4]).unsqueeze(-1)
    bits = (values >> torch.arange(8, dtype=torch.int32)) & 1
    return bits.reshape(-1, 32) * 16


def q4_0(blocks: torch.Tensor) -> torch.Tensor:
    """d, 16 bytes of nibbles: d * (q - 8)."""
    return half(blocks, 0) * (nibbles(blocks[:, 2:18]) - 8)


def q4_1(blocks: torch.Tensor) -> torch.Tensor:
    """d, m, 16 bytes of nibbles: d * q + m."""
    return half(blocks, 0) * nibbles(blocks[:, 4:20]) + half(blocks, 2)


def q5_0(blocks: torch.Tensor) -> torch.Tensor:
    """d, 32 high bits, 16 bytes of nibbles: d * (q - 16)."""
    q = nibbles(blocks[:, 6:22]) + high_bits(blocks, 2)
    return half(blocks, 0) * (q - 16)


def q5_1(blocks: torch.Tensor) -> torch.Tensor:
    """d, m, 32 high bits, 16 bytes of nibbles: d * q + m."""
    q = nibbles(blocks[:, 8:24]) + high_bits(blocks, 4)
    return half(blocks, 0) * q + half(blocks, 2)


def q8_0(blocks: torch.Tensor) -> torch.Tensor:
    """d, 32 int8: d * q."""
    return half(blocks, 0) * signed(blocks[:, 2:34])


def scales_of_k(packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eight scales and eight minima of 6 bits in 12 bytes: (blocks, 8) each."""
    a, b, c = (wide(packed[:, i : i + 4]) for i in (0, 4, 8))
    scales = torch.cat([a & 63, (c & 15) | ((a >> 6) << 4)], -1)
    minima = torch.cat([b & 63, (c >> 4) | ((b >> 6) << 4)], -1)
    return scales, minima


def k_values(blocks: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """d * scale * q - dmin * minimum, for eight parts of 32 quants."""
    scales, minima = scales_of_k(blocks[:, 4:16])
    scale = (half(blocks, 0) * scales).unsqueeze(-1)
    minimum = (half(blocks, 2) * minima).unsqueeze(-1)
    return (scale * q - minimum).reshape(-1, 256)


def nibbles_of_k(packed: torch.Tensor) -> torch.Tensor:
    """128 bytes as eight parts of 32: of each 32 bytes the low halves, then the high ones."""
    return nibbles(packed.reshape(-1, 4, 32)).reshape(-1, 8, 32)


def q4_k(blocks: torch.Tensor) -> torch.Tensor:
    """d, dmin, 12 bytes of scales, 128 bytes of nibbles."""
    return k_values(blocks, nibbles_of_k(blocks[:, 16:144]))


def q5_k(blocks: torch.Tensor) -> torch.Tensor:
    """d, dmin, 12 bytes of scales, 32 bytes of high bits, 128 bytes of nibbles."""
    part = torch.arange(8, dtype=torch.int32).reshape(8, 1)
    high = (wide(blocks[:, 16:48]).unsqueeze(1) >> part) & 1
    return k_values(blocks, nibbles_of_k(blocks[:, 48:176]) + high * 16)


def q6_k(blocks: torch.Tensor) -> torch.Tensor:
    """128 bytes of nibbles, 64 of 2 high bits, 16 int8 scales, d: d * scale * (q - 32)."""
    low = nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    shift = torch.arange(0, 8, 2, dtype=torch.int32).reshape(4, 1)
    high = (wide(blocks[:, 128:192]).reshape(-1, 2, 1, 32) >> shift) & 3
    q = (low + high * 16 - 32).reshape(-1, 16, 16)
    scale = (half(blocks, 208) * signed(blocks[:, 192:208])).unsqueeze(-1)
    return (scale * q).reshape(-1, 256)
