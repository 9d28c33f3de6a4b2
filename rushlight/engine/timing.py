"""Run a plan one kernel at a time, and say how long each took.

In: a Plan and its backend. Out: seconds per kernel call. Kernels run as in the whole plan, in its
order; what an empty plan takes (filling its tables) is taken off. A kernel that is small alone may
run on one thread here and on several as part of a longer program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from rushlight.compiler.target import Backend, Caps, HostCall, KernelCall, LoadedPlan, Plan

REPEATS = 3
# A kernel that takes longer is not run again.
REPEAT_LIMIT_S = 0.05


class CallTimer:
    """A plan taken apart into plans of one call each."""

    def __init__(self, plan: Plan, backend: Backend, caps: Caps) -> None:
        def load(regions: tuple) -> LoadedPlan:
            return backend.load(Plan(plan.buffers, regions, plan.variables, plan.sites), caps)

        self._calls = [call for region in plan.regions for call in region]
        self._parts = [load(((call,),)) for call in self._calls]
        self._empty = load(())
        self._idle_s: float | None = None

    def run(
        self,
        pointers: Sequence[int],
        ints: np.ndarray,
        numbers: Sequence[Any],
        done: Callable[[int, float], None],
        repeat: bool = False,
    ) -> int:
        """Like LoadedPlan.run; `done(number of the call, seconds)` after each call.

        `repeat`: a call that may run again without harm does, and its fastest run counts.
        """
        if self._idle_s is None:
            self._idle_s = min(_timed(self._empty, pointers, ints, numbers)[1] for _ in range(3))
        for number, part in enumerate(self._parts):
            status, seconds = _timed(part, pointers, ints, numbers)
            if repeat and not status and _can_repeat(self._calls[number], pointers):
                for _ in range(REPEATS if seconds < REPEAT_LIMIT_S else 0):
                    seconds = min(seconds, _timed(part, pointers, ints, numbers)[1])
            done(number, max(seconds - self._idle_s, 0.0))
            if status:
                return status
        return 0


def _can_repeat(call: KernelCall | HostCall, pointers: Sequence[int]) -> bool:
    """It reads nothing that it writes: no buffer is updated, no output lies over an input."""
    if isinstance(call, HostCall):
        return False
    buffers = call.executable.program.buffers
    places: dict[str, set[int]] = {"in": set(), "out": set()}
    for number, buffer in zip(call.buffers, buffers, strict=False):
        if buffer.role == "inout":
            return False
        places["in" if buffer.role == "in" else "out"].add(int(pointers[number]))
    return not places["in"] & places["out"]


def _timed(
    part: LoadedPlan, pointers: Sequence[int], ints: np.ndarray, numbers: Sequence[Any]
) -> tuple[int, float]:
    start = perf_counter()
    status = part.run(pointers, ints, numbers)
    return status, perf_counter() - start
