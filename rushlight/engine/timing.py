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

from rushlight.compiler.target import Backend, Caps, LoadedPlan, Plan


class CallTimer:
    """A plan taken apart into plans of one call each."""

    def __init__(self, plan: Plan, backend: Backend, caps: Caps) -> None:
        def load(regions: tuple) -> LoadedPlan:
            return backend.load(Plan(plan.buffers, regions, plan.variables, plan.sites), caps)

        self._parts = [load(((call,),)) for region in plan.regions for call in region]
        self._empty = load(())
        self._idle_s: float | None = None

    def run(
        self,
        pointers: np.ndarray,
        ints: np.ndarray,
        numbers: Sequence[Any],
        done: Callable[[int, float], None],
    ) -> int:
        """Like LoadedPlan.run; `done(number of the call, seconds)` after each call."""
        if self._idle_s is None:
            self._idle_s = min(_timed(self._empty, pointers, ints, numbers)[1] for _ in range(3))
        for number, part in enumerate(self._parts):
            status, seconds = _timed(part, pointers, ints, numbers)
            done(number, max(seconds - self._idle_s, 0.0))
            if status:
                return status
        return 0


def _timed(
    part: LoadedPlan, pointers: np.ndarray, ints: np.ndarray, numbers: Sequence[Any]
) -> tuple[int, float]:
    start = perf_counter()
    status = part.run(pointers, ints, numbers)
    return status, perf_counter() - start
