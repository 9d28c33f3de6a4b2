"""Matrices of packed numbers, laid out for products: the unpacking is part of the product's kernel.

In: a `GGUFTensor` of two dimensions with blocks of 32 (Q4_0, Q4_1, Q8_0). Out: a `PackedMatrix`.
Always true: it holds the file's numbers, bit for bit, in another order: what lies side by side are
the rows of the weight, because a product with few rows of x runs its lanes along them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import rushlight as torch
from rushlight.serialization.errors import UnsupportedObjectError
from rushlight.serialization.gguf import unpack

BLOCK = 32
HALF_BYTES = 2  # of a float16
# Rows of x up to which a product unpacks where it multiplies.
FEW_ROWS = 8
PANELS = (128, 96, 64, 48, 32, 16)
# Of a block of each kind: bits of a quant, whether it has a minimum, what is taken from a quant.
FORMS = {"Q4_0": (4, False, 8), "Q4_1": (4, True, 0), "Q8_0": (8, False, 0)}


@dataclass(frozen=True, eq=False)
class PackedMatrix:
    """A weight of shape (out_features, in_features) in packed numbers.

    Panels of `width` rows of the weight lie one after the other, so that a product reads memory
    in one run. P panels, B = in_features / 32 blocks:
    quants: uint8 (P, B, 16, width), of two numbers a byte, or int8 (P, B, 32, width).
    scale, minimum: float16 (P, B, 1, width).
    A number is scale * (quant - middle) + minimum.
    """

    quants: torch.Tensor
    scale: torch.Tensor
    minimum: torch.Tensor | None
    middle: int

    @property
    def shape(self) -> tuple[int, int]:
        """(out_features, in_features)."""
        panels, blocks, _, width = self.scale.shape
        return panels * width, blocks * BLOCK

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        parts = (self.quants, self.scale, self.minimum)
        return sum(part.numel() * part.element_size() for part in parts if part is not None)

    def linear(self, x: torch.Tensor) -> torch.Tensor:
        """x (..., in_features) times the transposed weight: float32 (..., out_features)."""
        out_features, in_features = self.shape
        rows = x.reshape(-1, in_features)
        if rows.shape[0] > FEW_ROWS:  # unpacked once, for all rows
            return x @ self.dequantize().T
        y = rows @ self._numbers().flatten(1, 2)  # (P, rows, width)
        return y.transpose(0, 1).reshape(*x.shape[:-1], out_features)

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """The rows of an index (...): float32 (..., in_features), as an embedding reads them."""
        width = self.scale.shape[-1]
        flat = index.flatten()
        panel, column = flat // width, flat % width
        parts = (self.quants, self.scale, self.minimum)
        picked = [None if p is None else p[panel, :, :, column].unsqueeze(-1) for p in parts]
        found = PackedMatrix(*picked, self.middle)._numbers()
        return found.reshape(*index.shape, self.shape[1])

    def dequantize(self) -> torch.Tensor:
        """Plain numbers: float32 (out_features, in_features)."""
        return self._numbers().permute(0, 3, 1, 2).reshape(self.shape)

    def _numbers(self) -> torch.Tensor:
        """float32 (P, B, 32, width)."""
        q = self.quants if self.quants.dtype is torch.int8 else _nibbles(self.quants)
        if self.middle:
            q = q.to(torch.int8) - self.middle
        values = self.scale.to(torch.float32) * q
        return values if self.minimum is None else values + self.minimum.to(torch.float32)


def pack(tensors: Sequence[Any]) -> PackedMatrix:
    """One matrix of the rows of one or several GGUFTensors, in their order.

    ValueError: they have different kinds or numbers of columns. UnsupportedObjectError: one has not
    two dimensions, or blocks of another kind.
    """
    for tensor in tensors:
        if len(tensor.shape) != 2 or tensor.kind.name not in FORMS:
            raise UnsupportedObjectError(
                f"tensor '{tensor.name}' is {tensor.kind.name} of shape {tensor.shape}; packed "
                f"matrices have two dimensions and blocks of {', '.join(FORMS)}"
            )
    kinds = {(tensor.kind.name, tensor.shape[1]) for tensor in tensors}
    if len(kinds) != 1:
        raise ValueError(f"pack: tensors of one kind and one width, got {sorted(kinds)}")
    ((name, in_features),) = kinds
    rows = sum(tensor.shape[0] for tensor in tensors)
    blocks = torch.cat([tensor.blocks for tensor in tensors])
    return pack_blocks(name, (rows, in_features), blocks)


def pack_blocks(kind: str, shape: tuple[int, int], blocks: torch.Tensor) -> PackedMatrix:
    """The matrix of blocks (blocks, bytes of a block), row by row, of a kind: "Q4_1" and so on."""
    rows, in_features = shape
    bits, has_minimum, middle = FORMS[kind]
    width = _panel_width(rows)
    blocks = blocks.reshape(-1, width, in_features // BLOCK, blocks.shape[-1]).permute(0, 2, 3, 1)
    at = HALF_BYTES * (2 if has_minimum else 1)
    quants = blocks[:, :, at:] if bits == 4 else blocks[:, :, at:].view(torch.int8)
    halves = [_half(blocks, place) for place in range(0, at, HALF_BYTES)]
    scale, minimum = halves if has_minimum else (halves[0], None)
    return PackedMatrix(quants.contiguous(), scale, minimum, middle)


def _panel_width(rows: int) -> int:
    """How many rows of a weight lie side by side: a whole part of all."""
    return next((width for width in PANELS if rows % width == 0), rows)


def _half(blocks: torch.Tensor, at: int) -> torch.Tensor:
    return unpack.half_bits(blocks.transpose(2, 3), at).transpose(2, 3).contiguous()


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    """Of bytes (P, B, 16, columns): the low halves of a block's bytes, then the high ones."""
    # 0 and 4, made of indices alone, so that the compiler knows them.
    shift = torch.arange(8, dtype=torch.uint8).view(1, 1, 2, 1, 4)[..., :1]
    return ((packed.unsqueeze(2) >> shift) & 15).flatten(2, 3)
