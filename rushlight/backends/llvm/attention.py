"""Attention: an AttentionGrid becomes a kernel function per side, and micro kernels.

An instance computes a block of owners of one batch element (attention_sides.py). Owners lie in the
lanes of vectors, so what happens between the products never crosses lanes:

    for each panel of owners: pack its operand of each product as [k][columns]        -> L2
    for each tile of KEY_BLOCK inner rows that a run or the causal mask leaves:
        pack the inner operands as [row][features]                                    -> L1 or L2
        for each panel of owners that sees the tile:
            accs [row][columns] = inner @ owners^T         micro kernel, from 0
            probabilities or weights of them: attention_steps.py
            sums [n][columns] += other^T @ weights         micro kernel
    turn the sums to [owner][n], the stores: attention_results.py

A gradient in one pass (attention_cross.py) has sums for the inner rows, too. Sums into bins
(attention_bins.py) have a kernel of their own. A softmax of few
queries has a way of its own (attention_thin.py).

Always true: [attention] of tile/ir says what is computed; the size of the block, the panels, the
registers and the packing are free.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.backends.llvm.attention_emit import AttentionEmitter
from rushlight.backends.llvm.attention_sides import (
    side_of,
    sides_of,
)
from rushlight.backends.llvm.attention_thin import ThinAttentionEmitter
from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.context import KernelContext
from rushlight.backends.llvm.schedule import dot_grain
from rushlight.backends.llvm.schedule_attention import (
    AttentionSchedule,
    ThinAttention,
    choose_attention_schedule,
    for_bins,
)
from rushlight.backends.llvm.types import Launch, Scratch
from rushlight.base.dtypes import float32, float64
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import AttentionGrid, Program
from rushlight.ir.symint_math import maximum, product

# So many units share well among the threads of a machine.
THIN_UNITS = 32


def lower_attention_grid(
    context: Callable[[str], KernelContext],
    program: Program,
    grid: AttentionGrid,
    caps: Caps,
    schedule: AttentionSchedule | ThinAttention | None = None,
) -> tuple[list[Launch], list[Scratch]]:
    """One launch per side that has results; `schedule` overrides the chosen one (same bits)."""
    if grid.acc_dtype not in (float32, float64):
        raise TypeError(
            f"{program.name}: AttentionGrid.acc_dtype is {grid.acc_dtype.name}; allowed are "
            "float32 and float64"
        )
    launches = []
    for name in sides_of(grid):
        target = split_target(caps.features)
        chosen = schedule or choose_attention_schedule(grid, name, target, caps.threads)
        if isinstance(chosen, ThinAttention):
            launches.append(_thin_launch(context(f"_{name}"), grid, chosen))
            continue
        if chosen.is_one_pass and name == "l":
            continue
        if name == "ls":  # in the order of the bins' sums
            chosen = for_bins(chosen)
        ctx, side = context(f"_{name}"), side_of(grid, name, chosen.is_one_pass)
        emitter = AttentionEmitter(ctx, grid, side, chosen)
        emitter.emit()
        features = sum((p.k.extent for p in grid.products), start=0)
        sums = (*side.sums, *side.cross)
        features = features + sum((x.n.extent for x in sums if x.n is not None), start=0)
        owners = side.owner.extent if side.is_whole else chosen.owners
        pairs = owners * side.inner.extent
        work = maximum(pairs * (features + 16) // chosen.lanes, 1)
        count, local = product(emitter.extents), emitter.layout.total
        launches.append(Launch(ctx.function.name, 0, count, local, dot_grain(work), work))
    return launches, []


def _thin_launch(ctx: KernelContext, grid: AttentionGrid, schedule: ThinAttention) -> Launch:
    emitter = ThinAttentionEmitter(ctx, grid, schedule)
    emitter.emit()
    widths = [p.k.extent for p in grid.products]
    widths += [x.n.extent for x in grid.sums if x.n is not None]
    work = maximum(grid.l.extent * grid.s.extent * sum(widths) // schedule.lanes, 1)
    count, local = product(emitter.extents), emitter.layout.total
    grain = dot_grain(work)
    if isinstance(count, int):  # a thread goes on where what it asked for ahead lies
        grain = max(grain, count // THIN_UNITS)
    return Launch(ctx.function.name, 0, count, local, grain, work)
