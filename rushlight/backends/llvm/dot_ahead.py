"""What a contraction will need soon: where its micro kernels ask for it while they multiply.

In: a contraction and its schedule. Out: for each call of the micro kernel a walk through memory,
(address, bytes to the next, last address); pairs of cache lines are asked for. Either the outputs'
old values that the epilogue of the next tile reads, or the next panel of b, a part with each tile.
Only hints: no value depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from rushlight.backends.llvm.access import free_names, step_along
from rushlight.backends.llvm.context import I8, Env, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.pack import Operand, min_value
from rushlight.backends.llvm.schedule import DotSchedule
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import Buffer, DotGrid
from rushlight.ir.symint import Expr

# An operand that lies in the second cache anyway needs no help.
WORTH_BYTES = 4 << 20
PAIR_BYTES = 128
Walk = tuple[ir.Value, ir.Value, ir.Value]


@dataclass(frozen=True)
class AheadOfB:
    """row_bytes: from one k to the next, or from one n to the next if b lies along k."""

    operand: Operand
    row_bytes: int
    schedule: DotSchedule

    def walk(
        self, ctx: KernelContext, builder: ir.IRBuilder, env: Env, first: ir.Value, k0: ir.Value,
        share: ir.Value, shares: ir.Value,
    ) -> Walk:  # fmt: skip
        """Part `share` of `shares` of the panel of b that begins at (k0, first)."""
        o, s = self.operand, self.schedule
        here = {**env, o.axis.name: first, o.k.name: k0}
        emitter = ValueEmitter(ctx, builder, here, Lanes(), {})
        start = emitter.pointer(*o.value.meta)
        if o.along_k:  # rows follow each other without gaps
            step, count = PAIR_BYTES, s.columns * self.row_bytes // PAIR_BYTES
        else:
            step, count = self.row_bytes, s.kc
        return _part_of(builder, start, step, count, share, shares)


def walk_through(
    builder: ir.IRBuilder, start: ir.Value, nbytes: int, share: ir.Value, shares: ir.Value
) -> Walk:
    """Part `share` of `shares` of memory without gaps."""
    return _part_of(builder, start, PAIR_BYTES, max(1, nbytes // PAIR_BYTES), share, shares)


def _part_of(
    builder: ir.IRBuilder, start: ir.Value, step: int, count: int, share: ir.Value,
    shares: ir.Value,
) -> Walk:  # fmt: skip
    each = builder.udiv(builder.add(i64(count - 1), shares), shares)
    low = builder.mul(share, each)
    high = min_value(builder, builder.add(low, each), i64(count))
    at = [builder.mul(n, i64(step)) for n in (low, builder.sub(high, i64(1)))]
    place, last = (builder.gep(start, [offset], source_etype=I8) for offset in at)
    return place, i64(step), last


def ahead_of_b(grid: DotGrid, operand: Operand, s: DotSchedule) -> AheadOfB | None:
    """For a large b that is a plain load whose panels are simple walks through memory."""
    value, n, k = operand.value, grid.n.extent, grid.k.extent
    if value.op != "load" or value.args or not (isinstance(n, int) and isinstance(k, int)):
        return None
    size, names = value.dtype.itemsize, free_names([value])
    if n * k * size <= WORTH_BYTES or s.columns * size > PAIR_BYTES:
        return None
    steps: list[Any] = [step_along(value.meta[1], axis.name, names) for axis in (grid.n, grid.k)]
    if operand.along_k:
        is_dense = steps == [k, 1] and k <= s.kc and k * size % PAIR_BYTES == 0
        return AheadOfB(operand, k * size, s) if is_dense else None
    if steps[0] != 1 or steps[1] is None or steps[1] <= 0:
        return None
    return AheadOfB(operand, steps[1] * size, s)


@dataclass(frozen=True)
class AheadOfOutputs:
    """buffer, index: what the epilogue reads for each output; row_bytes: from one m to the next."""

    grid: DotGrid
    buffer: Buffer
    index: Expr
    row_bytes: int
    rows: int

    def walk(
        self, ctx: KernelContext, builder: ir.IRBuilder, env: Env, m: ir.Value, n: ir.Value
    ) -> Walk:
        """The tile of outputs that begins at (m, n)."""
        here = {**env, self.grid.m.name: m, self.grid.n.name: n}
        start = ValueEmitter(ctx, builder, here, Lanes(), {}).pointer(self.buffer, self.index)
        length = i64(self.row_bytes * (self.rows - 1))
        return start, i64(self.row_bytes), builder.gep(start, [length], source_etype=I8)


def ahead_of_outputs(
    grid: DotGrid, reads: list[tuple[Buffer, Expr]], s: DotSchedule
) -> AheadOfOutputs | None:
    """For one buffer that is read row by row, and rows of a tile that are a pair of lines."""
    if len(reads) != 1 or not isinstance(grid.k.extent, int):
        return None
    buffer, index = reads[0]
    step, size = step_along(index, grid.m.name, {}), buffer.dtype.itemsize
    if step is None or step <= 0 or s.columns * size > PAIR_BYTES:
        return None
    return AheadOfOutputs(grid, buffer, index, step * size, s.rows)
