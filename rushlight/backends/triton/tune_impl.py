"""Schedules and makers of products measured on an NVIDIA GPU.

In: a program with constant sizes, a GPU. Out: what is the fastest, with the times. Always true:
what is measured computes on zeros in memory of its own; what cannot be built or launched is left
out. **Tested with an imitation of the driver, not run on a GPU.**
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from rushlight.backends.cfamily.run import GroupExecutable
from rushlight.backends.products import Maker
from rushlight.backends.triton.driver_impl import target_of
from rushlight.backends.triton.gpu_impl import attach_to_gpu, made_by
from rushlight.backends.triton.module_text import lowered
from rushlight.backends.triton.space import AnySchedule, space_of
from rushlight.base.errors import BackendError
from rushlight.compiler.decisions import Decision
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import AttentionGrid, DotGrid, Program
from rushlight.compiler.tile.text import structural_key
from rushlight.ir.symint_walk import evaluate
from rushlight.runtime.cache import disk_cache
from rushlight.runtime.cuda_impl import Gpu
from rushlight.runtime.tuning import Tuned, tune

REPEATS = 5


class Tuner:
    """Measures what can be run for a program with constant sizes, on this GPU."""

    def __init__(self, gpu: Gpu, caps: Caps) -> None:
        self.gpu, self.caps = gpu, caps

    def key(self, program: Program, what: str) -> str:
        """What was measured, of which program, on which kind of GPU: the record's name on disk."""
        return f"{what}|{structural_key(program)}|{self.caps.features}"

    def schedule(self, program: Program) -> tuple[AnySchedule | None, Decision | None]:
        """The fastest of the space, for Triton, and what is told of the choice."""
        grids = [g for g in program.grids if isinstance(g, (DotGrid, AttentionGrid))]
        space = {plan.name: plan for plan in space_of(grids[0])}
        candidates = {
            name: partial(self.milliseconds, partial(self._triton, program, plan))
            for name, plan in space.items()
        }
        tuned = tune(self.key(program, "schedule"), candidates, disk_cache())
        return space[tuned.name], Decision(tuned.name, tuned.reasons())

    def maker(
        self, program: Program, wanted: AnySchedule | None, able: Mapping[str, Maker | None]
    ) -> Tuned:
        """The fastest of those that are able (None: Triton, cut as `wanted` says)."""
        chip = target_of(self.gpu)

        def build(maker: Maker | None) -> GroupExecutable:
            if maker is None:
                return self._triton(program, wanted)
            return made_by(maker, program, chip)

        candidates = {
            name: partial(self.milliseconds, partial(build, maker)) for name, maker in able.items()
        }
        return tune(self.key(program, f"maker of {','.join(able)}"), candidates, disk_cache())

    def _triton(self, program: Program, plan: AnySchedule | None) -> GroupExecutable:
        (made,) = attach_to_gpu(lowered([program], self.caps, plan), self.gpu)
        return made

    def milliseconds(self, build: Callable[[], GroupExecutable]) -> float:
        """Of one run, on buffers of zeros: the least of some. BackendError: it cannot run."""
        try:
            made = build()
        except BackendError:
            raise
        except Exception as error:  # whatever a compiler says of a schedule, others may do
            raise BackendError(f"{type(error).__name__}: {error}") from error
        return time_on(self.gpu, made)


def time_on(gpu: Gpu, made: GroupExecutable) -> float:
    """Milliseconds of one run of all its kernels on buffers of zeros: the least of REPEATS."""
    sizes = [m.dtype.itemsize * int(m.size) for m in (*made.program.buffers, *made.lowered.scratch)]
    host = np.zeros(max(1, len(made.program.params)), np.int64)
    zeros = np.zeros(max([8, *sizes]), np.uint8)
    places = [gpu.allocate(size) for size in (*sizes, host.nbytes, 8)]
    try:
        for place, size in zip(places, (*sizes, host.nbytes, 8), strict=True):
            gpu.upload(place, zeros.ctypes.data, size)
        best = float("inf")
        for _ in range(1 + REPEATS):  # the first one loads the code
            begin = gpu.event()
            for kernel, function in zip(made.lowered.kernels, made.functions, strict=True):
                groups = evaluate(kernel.groups, {})
                words, status = int(places[-2]), int(places[-1])
                function.start(gpu, groups, places[:-2], words, status, host)
            best = min(best, gpu.elapsed_ms(begin, gpu.event()))
        return best
    finally:
        for place in places:
            gpu.free(place)


def is_static(program: Program) -> bool:
    """Are all its sizes numbers, so that it can be run by itself?"""
    return not program.sizes
