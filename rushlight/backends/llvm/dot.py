"""Contractions: a DotGrid becomes one kernel function and one micro kernel.

In: a grid. Out: the form of it that suits the target (sides swapped, batch axes folded, elements
packed in words), its schedule, and the code: dot_emit.py, dot_tiles.py (tile registers),
dot_sliding.py or thin.py.
Always true: the schedule never changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rushlight.backends.llvm.batch import fold_into_columns, fold_shared_batch
from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.context import KernelContext
from rushlight.backends.llvm.dot_emit import DotEmitter
from rushlight.backends.llvm.dot_precision import narrowed, narrowed_words
from rushlight.backends.llvm.dot_sliding import SlidingEmitter, inner_grid
from rushlight.backends.llvm.dot_tiles import (
    TileEmitter,
    choose_tile_schedule,
    suits_tiles,
    sums_in_blocks,
    words_of,
)
from rushlight.backends.llvm.dot_words import (
    before_casts,
    for_multiply_words,
    in_words,
    is_int8,
    suits_words,
)
from rushlight.backends.llvm.orient import orient
from rushlight.backends.llvm.schedule import (
    DotSchedule,
    ThinSchedule,
    choose_dot_schedule,
    choose_schedule,
    choose_sliding_schedule,
    choose_thin_schedule,
    dot_grain,
    lanes_of,
    register_block,
)
from rushlight.backends.llvm.thin import ThinEmitter, emit_thin
from rushlight.backends.llvm.thin_blocks import ThinBlockEmitter, in_blocks
from rushlight.backends.llvm.types import Launch, Scratch
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import DotGrid, Program
from rushlight.ir.symint_math import maximum, product

# Vectors of columns from which on batch elements with few rows stay apart.
APART_COLUMNS = 4


def lower_dot_grid(
    context: Callable[[str], KernelContext],
    program: Program,
    grid: DotGrid,
    caps: Caps,
    schedule: DotSchedule | ThinSchedule | None = None,
) -> tuple[list[Launch], list[Scratch]]:
    """The launch of a contraction; `schedule` overrides the chosen one (same bits)."""
    if grid.acc_dtype.kind == "bool" or grid.acc_dtype.compute is not grid.acc_dtype:
        raise TypeError(
            f"{program.name}: DotGrid.acc_dtype is {grid.acc_dtype.name}; allowed are float32, "
            "float64 and the integers"
        )
    ctx = context("")
    grid, chosen = plan_dot(grid, ctx.target, caps.threads)
    if isinstance(schedule, DotSchedule) and isinstance(chosen, DotSchedule):
        schedule = replace(schedule, words=chosen.words)
    schedule = schedule or chosen
    if isinstance(schedule, ThinSchedule):
        thin = ThinBlockEmitter if sums_in_blocks(grid, ctx.target) else ThinEmitter
        return [emit_thin(thin(ctx, grid, schedule))], []
    is_sliding = grid.slides is not None
    kind = SlidingEmitter if is_sliding else TileEmitter if schedule.tiles else DotEmitter
    emitter = kind(ctx, grid, schedule)
    emitter.emit()
    steps = emitter.inner.k.extent * (emitter.points if is_sliding else 1)
    work = maximum(schedule.mc * schedule.nc * steps // schedule.lanes, 1)
    count, grain = product(emitter.extents), dot_grain(work)
    launch = Launch(ctx.function.name, 0, count, emitter.local_bytes, grain, work)
    return [replace(launch, keeps=() if is_sliding else tuple(emitter.keeps))], []


def plan_dot(
    grid: DotGrid, target: Target, threads: int
) -> tuple[DotGrid, DotSchedule | ThinSchedule]:
    """The form of a contraction that is emitted, and its schedule."""
    lanes = lanes_of(grid.acc_dtype, target)
    if grid.slides is not None and grid.acc_dtype.is_floating_point:
        grid = fold_into_columns(fold_shared_batch(grid), lanes)
        points = sum(grid.slides) - 1
        return grid, choose_sliding_schedule(grid, inner_grid(grid), points, target, threads)
    grid = fold_shared_batch(before_casts(replace(grid, slides=None)))
    # Few rows read b as it lies: one batch element after the other.
    apart = narrowed(orient(grid, lanes), target)
    if isinstance(apart.n.extent, int) and apart.n.extent >= APART_COLUMNS * lanes:
        thin = choose_thin_schedule(apart, target, threads)
        if thin is not None:
            return _thin_plan(apart, thin, target)
    grid = orient(fold_into_columns(grid, lanes), lanes)
    narrow = narrowed(grid, target)
    schedule = choose_schedule(narrow, target, threads)
    if isinstance(schedule, ThinSchedule):
        return _thin_plan(narrow, schedule, target)
    if suits_tiles(narrow, target):
        size = words_of(narrow)
        grid = narrowed_words(grid, target) if size == 2 else in_words(grid, size)
        return grid, choose_tile_schedule(grid, target, threads)
    if suits_words(grid, target):
        block = register_block(grid.m.extent, grid.n.extent, lanes, target, int(is_int8(grid)))
        grid = for_multiply_words(grid)
        schedule = replace(choose_dot_schedule(grid, target, threads, block), words=True)
    return grid, schedule


def _thin_plan(
    grid: DotGrid, schedule: ThinSchedule, target: Target
) -> tuple[DotGrid, ThinSchedule]:
    return grid, in_blocks(schedule) if sums_in_blocks(grid, target) else schedule
