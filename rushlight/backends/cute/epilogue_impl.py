"""What follows a product: the stores of a tile program, for the values that one thread has.

In: `Work`, the sums of a thread and their places in the tile. Out: stores. Always true: nothing is
stored outside of the result, nothing is read outside of a buffer.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cutlass
from cutlass import cute
from cutlass._mlir.dialects import arith

from rushlight.backends.cute.chips import CHIPS, Chip
from rushlight.backends.cute.claims import Operand, Product
from rushlight.backends.cute.flash_claims import Attention, Side
from rushlight.backends.cute.values_impl import NUMERIC, STORED, Values
from rushlight.base.dtypes import bool_, int64
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.text import structural_key
from rushlight.ir import scalar as s
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import product
from rushlight.ir.symint_walk import evaluate


@dataclass(frozen=True, eq=False, repr=False)
class Work:
    """All that a kernel is traced from. Its text is part of the names that CuTe gives.

    side  which of attention's kernels this is
    """

    product: Product | Attention
    chip: Chip
    side: Side | None = None

    def __repr__(self) -> str:
        digest = hashlib.sha256(structural_key(self.program).encode())
        side = f"_{self.side.name}" if self.side else ""
        return f"{self.program.name}{side}_{digest.hexdigest()[:16]}"

    def __getattr__(self, name: str) -> Any:
        """What is multiplied: see Product and Attention."""
        return getattr(self.product, name)

    @property
    def kind(self) -> Any:
        """The dtype of the operands, as CuTe calls it."""
        return NUMERIC[self.operands[0].matrix.buffer.dtype.name]

    @property
    def operands(self) -> list[Operand]:
        """What TMA fetches."""
        if isinstance(self.product, Product):
            return self.product.operands(self.chip)
        assert self.side is not None
        return self.side.operands

    @property
    def parts(self) -> list[Work]:
        """The kernels that it takes, one after the other."""
        if isinstance(self.product, Product):
            return [self]
        return [replace(self, side=side) for side in self.product.sides]

    @cached_property
    def batch(self) -> int | Expr:
        """How many products, or matrices of scores, there are."""
        return product(axis.extent for axis in self.grid.batch)

    @property
    def words(self) -> int:
        """How many words a launch writes: sizes, then scalars."""
        return max(1, len(self.program.sizes) + len(self.program.params))

    @property
    def size_names(self) -> list[str]:
        """Of the sizes of the program, in the order of a launch."""
        return [var.name for var in self.program.sizes]


def work_of(product: Product | Attention, chip: str) -> Work:
    """What the kernels of something that was claimed for a chip are traced from."""
    return Work(product, CHIPS[chip])


def number_of(value: int | Expr, sizes: Any) -> Any:
    """An index expression over sizes: a number, or one of CuTe's."""
    return evaluate(value, sizes) if isinstance(value, Expr) else value


def finish(work, acc, places, block, memories, numbers, sizes) -> None:
    """The stores of all values of a thread. `places`: (row, column) of each in its tile."""
    lanes, (row, column, batch) = cute.size(acc), block
    values = base_values(work, lanes, batch, memories, numbers, sizes)
    values.found[s.acc(work.grid.acc_dtype)] = acc.load().ir_value()
    inside = None
    for side, (axis, size, number) in enumerate((
        (work.grid.m, work.chip.bm, row), (work.grid.n, work.chip.bn, column),
    )):  # fmt: skip
        own = [cutlass.Int64(places[lane][side] + number * size) for lane in range(lanes)]
        less = values.set_axis(axis, own)
        if not isinstance(axis.extent, int) or axis.extent % size:
            inside = less if inside is None else arith.andi(inside, less)
    for store in work.grid.stores:
        put_all(values, store, inside, memories[position(work, store.dest)])


def position(work: Work, buffer: Any) -> int:
    """The number of a buffer among the program's, and so among the pointers of a launch."""
    return [b.name for b in work.program.buffers].index(buffer.name)


def base_values(work, lanes, batch, memories, numbers, sizes) -> Values:
    """Expressions over the sizes and the axes of the batch; `batch` numbers its elements."""
    params = [param.name for param in work.program.params]

    def param(node: Any) -> Any:
        return read_param(numbers, len(work.size_names) + params.index(node.meta), node.dtype)

    def memory(buffer: Any) -> Any:
        return memories[position(work, buffer)]

    values = Values(lanes, {}, memory, param)
    for name, size in zip(work.size_names, sizes, strict=False):
        values.found[name] = values.full(cutlass.Int64(size), int64)
    left = values.full(cutlass.Int64(batch), int64)
    for axis in reversed(work.grid.batch):
        extent = values.index(axis.extent)
        values.found[axis.name] = arith.remsi(left, extent)
        left = arith.divsi(left, extent)
    return values


def read_param(numbers: Any, at: int, dtype: Any) -> Any:
    """A scalar, from the words that a launch writes."""
    word = numbers[at]
    if dtype.is_floating_point:
        bits = cutlass.Int32(word) if dtype.itemsize == 4 else word
        kind = NUMERIC[dtype.name]
        return kind(arith.bitcast(kind.mlir_type, bits.ir_value()))
    return NUMERIC[dtype.name](word)


def put_all(values: Values, store: ir.Store, inside: Any, memory: Any) -> None:
    """A store for all values of a thread. `inside`: which of them are in the result (None: all)."""
    (value,) = values.of([store.value])
    if store.mask is not None:
        (mask,) = values.of([store.mask])
        inside = mask if inside is None else arith.andi(inside, mask)
    index_values = s.index_values(store.at)
    values.of(list(index_values))
    at = values.index(store.at)
    for lane in range(values.lanes):
        place = values.lane(at, lane, int64)
        one = values.lane(value, lane, store.value.dtype).to(STORED[store.dest.dtype.name])
        if inside is None:
            memory[place] = one
        else:
            put_one(memory, place, one, values.lane(inside, lane, bool_))


@cute.jit
def put_one(
    memory: cute.Tensor, place: cutlass.Int64, value: cutlass.Numeric, inside: cutlass.Boolean
):
    """One value to its place, where it is inside of the result."""
    if inside:
        memory[place] = value
