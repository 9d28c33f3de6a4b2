"""Scan: inclusive folds along an axis, each row in its own order, many rows at once.

Three ways, by how the rows lie:

* side by side (a scan over columns): lanes run along a kept axis;
* one after the other: a block of rows is turned in registers (scan_turned.py);
* a few rows, or rows whose elements are apart: single elements of ROWS_AT_ONCE rows, each of which
  is a chain that waits for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.backends.llvm.access import Accesses, Range, choose_range, find_accesses, ranges_of
from rushlight.backends.llvm.context import Env, KernelContext
from rushlight.backends.llvm.nest import emit_ranges, lane_count, with_loads_from_here
from rushlight.backends.llvm.scan_fold import Folding
from rushlight.backends.llvm.scan_turned import (
    ROWS_AT_ONCE,
    can_turn,
    emit_turned_rows,
    is_below,
    turned_count,
)
from rushlight.backends.llvm.streaming import streamed_buffers, with_streams
from rushlight.compiler.tile.ir import Axis, Scan


@dataclass(frozen=True)
class Layout:
    """Lanes (`count` of them) are along `part`; `turned`: rows become lanes in registers."""

    part: Range | None
    count: int
    unroll: int
    turned: bool = False


def choose_layout(ctx: KernelContext, statement: Scan, ranges: Sequence[Range]) -> Layout:
    """Which of the three ways (above) suits how the rows lie."""
    accesses = scan_accesses(statement)
    chosen = choose_range(ranges, accesses, ctx.target)
    if chosen is not None:
        return Layout(chosen, lane_count(ctx, accesses, chosen), 4)
    lanes = turned_count(ctx, statement, accesses)
    rows = _most_rows(ranges, lanes)
    if rows is not None and can_turn(statement, ranges, rows, accesses, lanes):
        return Layout(rows, lanes, 1, turned=True)
    # Lanes would gather: single elements of some rows, one row beside the other.
    rows = next((part for part in reversed(ranges) if part.extent != 1), None)
    return Layout(rows, 1, ROWS_AT_ONCE)


def _most_rows(ranges: Sequence[Range], lanes: int) -> Range | None:
    """The innermost range that fills the lanes, or the longest."""
    full = [part for part in ranges if not is_below(part.axis.extent, lanes)]
    if full:
        return full[-1]
    return max(ranges, key=lambda part: part.axis.extent, default=None)  # type: ignore[arg-type]


def scan_blocks(ctx: KernelContext, statement: Scan, lent: Sequence[Range]) -> dict[Axis, int]:
    """The lent axis that an instance takes a block of, with its size."""
    layout = choose_layout(ctx, statement, [*lent, *ranges_of(statement.axes)])
    part = layout.part
    if part is None or part not in lent or part.axis.extent == 1:
        return {}
    if layout.turned:
        return {part.axis: layout.count}
    return {part.axis: ROWS_AT_ONCE if layout.count == 1 else ctx.vector_bytes}


def scan_accesses(statement: Scan) -> Accesses:
    accesses = find_accesses([statement.value], [statement.at])
    if statement.kind in ("argmax", "argmin"):
        # Positions are int64 lanes: the value counts as 8 bytes wide.
        return _WideAccesses(accesses.roots, accesses.names, accesses.reads, accesses.writes)
    return accesses


class _WideAccesses(Accesses):
    def lane_bytes(self, axis: str, target: object) -> int:
        return 8


def emit_scan(
    ctx: KernelContext, statement: Scan, env: Env, ranges: Sequence[Range] | None = None
) -> None:
    """All rows of a Scan; `ranges` replaces its axes when the grid lent it some."""
    ranges = ranges_of(statement.axes) if ranges is None else list(ranges)
    layout = choose_layout(ctx, statement, ranges)
    scan = Folding(ctx, statement)
    along = Range(statement.over, 0, statement.over.extent) if layout.turned else layout.part

    def emit(part: Range | None) -> None:
        if layout.turned:
            assert layout.part is not None
            emit_turned_rows(scan, layout.part, layout.count, ranges, env)
            return
        parts = [part if r is layout.part and part is not None else r for r in ranges]
        emit_ranges(ctx, parts, part, layout.count, layout.unroll, env, scan.chains)

    streams = streamed_buffers([scan.store], along, layout.count)
    with_streams(
        ctx, streams, along, env, lambda part: with_loads_from_here(ctx, lambda: emit(part))
    )
