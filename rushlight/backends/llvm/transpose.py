"""A square block of vectors, turned in registers.

In: as many vectors as each has elements. Out: the columns. Always true: nothing is computed, so no
bit of an element changes.
"""

from __future__ import annotations

from llvmlite import ir

from rushlight.backends.llvm.context import I32

BITS = {"double": 64, "float": 32, "half": 16, "bfloat": 16} | {f"i{n}": n for n in (64, 32, 16, 8)}


def emit_transpose(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square block of vectors.

    First inside pieces of 128 bits, then of whole pieces: processors have a fast instruction for
    each of these steps, while shuffles of single elements across pieces take an operand more.
    """
    lanes = len(rows)
    width = min(lanes, 128 // BITS[str(rows[0].type.element)])
    groups = [_interleaved(builder, rows[at : at + width], width) for at in range(0, lanes, width)]
    pieces = [_pieces_turned(builder, list(column), width) for column in zip(*groups, strict=True)]
    return [column[number] for number in range(lanes // width) for column in pieces]


def _interleaved(builder: ir.IRBuilder, rows: list[ir.Value], width: int) -> list[ir.Value]:
    """Vector c: in each piece of `width` elements the columns of the c-th part, one by one."""
    count = len(rows)
    if count == 1:
        return rows
    half, lanes = count // 2, rows[0].type.count
    first, second = (_interleaved(builder, part, width) for part in (rows[:half], rows[half:]))
    masks = []
    for start in (0, width // 2):
        mask = []
        for piece in range(0, lanes, width):
            for at in range(piece + start, piece + start + width // 2, half):
                mask += [*range(at, at + half), *range(lanes + at, lanes + at + half)]
        masks.append(_mask(mask))
    pairs = zip(first, second, strict=True)
    return [builder.shuffle_vector(x, y, mask) for x, y in pairs for mask in masks]


def _pieces_turned(builder: ir.IRBuilder, rows: list[ir.Value], width: int) -> list[ir.Value]:
    """Vector n: the n-th pieces of all vectors."""
    if len(rows) == 1:
        return rows
    both = range(0, 2 * rows[0].type.count, 2 * width)
    even = _mask([at + i for at in both for i in range(width)])
    odd = _mask([at + width + i for at in both for i in range(width)])
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    parts = [
        _pieces_turned(builder, [builder.shuffle_vector(x, y, mask) for x, y in pairs], width)
        for mask in (even, odd)
    ]
    return [row for pair in zip(*parts, strict=True) for row in pair]


def _mask(order: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(order)), order)
