"""Run launch tables: on the caller and the pool's workers, or on the caller alone.

In: addresses of region and launch tables (pool_ir.py has their layout; plan.py fills them), the
work they hold. Out: nothing; `status` says whether an index check failed. Always true: the numbers
do not depend on which threads ran what. If two Python threads run at once, one has the workers and
the other runs alone with its own scratch. Between regions, and inside of long ones, the code
comes back to Python about every 100 ms, so a KeyboardInterrupt may leave from here with the rest
not run.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.backends.llvm.pool import get_pool, is_current
from rushlight.backends.llvm.pool_ir import native
from rushlight.runtime.buffer import Buffer, allocate

# A program of less work stays on the caller: waking the workers would cost more than they save.
PROGRAM_SHARE_PS = 50_000_000
# In a program worth sharing the workers are awake, and a region is handed out in about 1 us.
REGION_SHARE_PS = 5_000_000
# How often a long program comes back to Python, so that a pending Ctrl-C is seen.
SLICE_NS = 100_000_000
# A region of more work than this for each thread is done in parts, so that it can come back, too.
# By the cost hints, which may be wrong by some factor.
SLICE_PS = 20_000_000_000
# Scratch of runs on callers alone, as many as there were at once; none is larger than this.
KEPT_SCRATCH_BYTES = 1 << 20
_IDLE: list[Buffer] = []


@dataclass(slots=True)
class Segment:
    """Regions first..last that run without a host call between them."""

    first: int
    last: int


@dataclass(slots=True)
class Tables:
    """Addresses of the region and launch tables, the status word, and what a run needs. One run at
    a time uses them."""

    regions: int
    launches: int
    status: memoryview
    status_at: int
    # Ten words for the arguments of `run_plan`, where a run on the caller alone finds them.
    words: memoryview
    words_at: int
    local_bytes: int = 0
    # The work of the whole program by the cost hints, in picoseconds.
    work_ps: int = 0
    # Of the words: for which regions, with which scratch they were written.
    written: tuple[int, int, int] = (-1, -1, -1)


def run_segment(tables: Tables, segment: Segment) -> None:
    """Run the regions in order; after one in which a check failed, no further one."""
    done, last = segment.first, segment.last
    while done < last and not tables.status[0]:
        if tables.work_ps < PROGRAM_SHARE_PS:
            done = _run_alone(tables, done, last)
            continue
        pool = get_pool()
        if pool.threads == 1 or not pool.lock.acquire(blocking=False):
            done = _run_alone(tables, done, last)
            continue
        try:
            if is_current(pool):
                pool.ensure_local(tables.local_bytes)
                done = native().run_plan(
                    pool.address, tables.regions, tables.launches, done, last,
                    tables.status_at, pool.caller_local, SLICE_NS, REGION_SHARE_PS, SLICE_PS,
                )  # fmt: skip
        finally:
            pool.lock.release()


def _run_alone(tables: Tables, first: int, last: int) -> int:
    local, scratch = 0, None
    if tables.local_bytes:
        scratch = _scratch(tables.local_bytes)
        local = scratch.address
    if tables.written != (first, last, local):
        arguments = (
            0, tables.regions, tables.launches, first, last,
            tables.status_at, local, SLICE_NS, REGION_SHARE_PS, SLICE_PS,
        )  # fmt: skip
        for place, argument in enumerate(arguments):
            tables.words[place] = argument
        tables.written = (first, last, local)
    done = native().run_words(tables.words_at)
    if scratch is not None and scratch.nbytes <= KEPT_SCRATCH_BYTES:
        _IDLE.append(scratch)
    return done


def _scratch(nbytes: int) -> Buffer:
    """Of a run on the caller alone: the one that was used last, if it is large enough."""
    try:
        found = _IDLE.pop()
        if found.nbytes >= nbytes:
            return found
    except IndexError:
        pass
    return allocate(nbytes)
