"""Schedules of contractions measured on this CPU (`max_autotune`).

In: a program with constant sizes. Out: the fastest schedule of its space, with the times; kept on
disk by program, CPU and threads, so that later processes measure nothing. Always true: the bits
are those of every other schedule. Candidates run in turn, round by round, so that a machine that
is busy for a while is so for all of them; another one than `schedule.py` chose must be faster by
MARGIN in such a race of its own.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np

from rushlight.backends.llvm.build import attach, build, lower
from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.dot import plan_dot
from rushlight.backends.llvm.jit import compile_text
from rushlight.backends.llvm.plan import LlvmPlan
from rushlight.backends.llvm.space import AnySchedule, space_of
from rushlight.backends.llvm.types import LlvmExecutable
from rushlight.base.config import config
from rushlight.base.dtypes import DType
from rushlight.base.errors import BackendError, OutOfMemoryError
from rushlight.compiler.decisions import Decision
from rushlight.compiler.target import BufferSpec, Caps, KernelCall, Plan
from rushlight.compiler.tile.ir import DotGrid, Program
from rushlight.compiler.tile.text import structural_key
from rushlight.names.version import OWN
from rushlight.runtime.buffer import Buffer, allocate
from rushlight.runtime.cache import disk_cache
from rushlight.runtime.threads import num_threads
from rushlight.runtime.tuning import Tuned, tune

ROUNDS, FINAL_ROUNDS = 5, 9
# A round of a candidate: as many runs as take so long.
ROUND_S = 2e-3
MOST_RUNS = 50
MARGIN = 0.02
# What takes so much longer in the first round is not in the others.
FAR_BEHIND = 1.15
# Operands that do not fit are not made only to measure.
MOST_BYTES = 1 << 30


def build_tuned(programs: Sequence[Program], caps: Caps) -> list[LlvmExecutable]:
    """As `build`; contractions with constant sizes get the fastest schedule."""
    return [_tuned(program, caps) for program in programs]


def _tuned(program: Program, caps: Caps) -> LlvmExecutable:
    found = None if program.sizes else _fastest(program, caps)
    if found is None:
        return build([program], caps)[0]
    schedule, decision = found
    return _made(program, caps, schedule, (decision,))


def _fastest(program: Program, caps: Caps) -> tuple[AnySchedule, Decision] | None:
    grids = [grid for grid in program.grids if isinstance(grid, DotGrid)]
    if len(grids) != 1 or _bytes_of(program) > MOST_BYTES:
        return None
    target = split_target(caps.features)
    space = space_of(*plan_dot(grids[0], target, caps.threads), target)
    if len(space) == 1:
        return None
    race = Race(program, caps, space)
    candidates = {name: partial(race.milliseconds, name) for name in space}
    key = f"schedule|{structural_key(program)}|{caps.features}|{caps.threads}|{cpu()}|{OWN}"
    try:
        tuned = tune(key, candidates, disk_cache(), race.confirm)
    except (BackendError, OutOfMemoryError):
        return None  # nothing could be measured
    return space[tuned.name], _told(tuned, next(iter(space)))


def _told(tuned: Tuned, default: str) -> Decision:
    """The gain comes first: what was chosen without measuring against what is chosen now."""
    gain = tuned.times[default] / tuned.times[tuned.name] if default in tuned.times else 1.0
    first = f"tuned: {gain:.2f} times as fast as {default}, of {len(tuned.times)} schedules"
    return Decision(tuned.name, (first, *tuned.reasons()))


def _made(
    program: Program, caps: Caps, schedule: AnySchedule, decisions: tuple[Decision, ...] = ()
) -> LlvmExecutable:
    module, lowered = lower([program], caps, {program: schedule}, decisions)
    return attach(lowered, compile_text(str(module), split_target(caps.features)))[0]


@cache
def cpu() -> str:
    """Which CPU this is: two with the same features may want other blocks."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def _bytes_of(program: Program) -> int:
    return sum(int(b.size) * b.dtype.itemsize for b in program.buffers)


class Race:
    """All candidates of a program, built when the first one is asked for."""

    def __init__(self, program: Program, caps: Caps, space: Mapping[str, AnySchedule]) -> None:
        self.program, self.caps, self.space = program, caps, space
        self.runs: dict[str, Callable[[], object]] = {}
        self.times: dict[str, float] = {}
        self.refused: dict[str, BackendError] = {}

    def milliseconds(self, name: str) -> float:
        """Of one run: the median of some rounds."""
        if not self.runs and not self.refused:
            self._measure()
        if name in self.refused:
            raise self.refused[name]
        return self.times[name]

    def confirm(self, first: str, best: str) -> bool:
        """Is `best` really faster than `first`, the two alone against each other?"""
        found = self._race((first, best), FINAL_ROUNDS)
        self.times.update(found)
        return found[best] < found[first] * (1 - MARGIN)

    def _measure(self) -> None:
        operands = Operands(self.program)
        progress = Progress(self.program.name, len(self.space))
        for name, schedule in self.space.items():
            try:
                self.runs[name] = operands.runner(_made(self.program, self.caps, schedule))
            except OutOfMemoryError:
                raise
            except Exception as error:  # whatever LLVM says of a schedule, others may do
                self.refused[name] = BackendError(f"{type(error).__name__}: {error}")
            progress.step()
        self.times = self._race(tuple(self.runs), 1)
        limit = min(self.times.values(), default=0) * FAR_BEHIND
        near = tuple(name for name, found in self.times.items() if found <= limit)
        self.times.update(self._race(near, ROUNDS))
        progress.end()

    def _race(self, names: Sequence[str], rounds: int) -> dict[str, float]:
        if not names:
            return {}
        once = max(_seconds(self.runs[names[0]], 1) for _ in range(2))
        count = int(min(max(ROUND_S / max(once, 1e-7), 1), MOST_RUNS))
        times: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                times[name].append(_seconds(self.runs[name], count))
        return {name: median(found) * 1e3 for name, found in times.items()}


def _seconds(run: Callable[[], object], count: int) -> float:
    # One thread is asked for its own time: others on the machine do not count.
    clock = process_time if num_threads() == 1 else perf_counter
    start = clock()
    for _ in range(count):
        run()
    return (clock() - start) / count


class Operands:
    """Memory of the sizes of a program's buffers: numbers of about 1, indices of 0."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.buffers = [self._operand(b.dtype, int(b.size)) for b in program.buffers]
        self.addresses = [buffer.address for buffer in self.buffers]

    @staticmethod
    def _operand(dtype: DType, count: int) -> Buffer:
        buffer = allocate(max(count * dtype.itemsize, 1))
        array = buffer.view(dtype, (count,))
        if dtype.is_floating_point:
            array[...] = np.resize(np.linspace(0.5, 1.5, 1021).astype(array.dtype), count)
        else:
            array[...] = 0
        return buffer

    def runner(self, executable: LlvmExecutable) -> Callable[[], object]:
        """What runs the executable on them."""
        program = self.program
        specs = tuple(
            BufferSpec(b.dtype, b.size, "input" if b.role == "in" else "result")
            for b in program.buffers
        )
        call = KernelCall(
            executable, tuple(range(len(specs))), (), tuple(range(len(program.params)))
        )
        if executable.scratch:
            raise BackendError(f"{program.name}: a contraction with scratch of its own")
        loaded = LlvmPlan(Plan(specs, ((call,),), ()))
        numbers = [1 if p.dtype.kind != "bool" else True for p in program.params]
        return partial(loaded.run, self.addresses, np.zeros(0, np.int64), numbers)


class Progress:
    """A line on the terminal that says how far measuring is, if it takes long and there is one."""

    def __init__(self, what: str, steps: int) -> None:
        self.what, self.steps, self.done = what, steps, 0
        self.is_shown = sys.stderr is not None and sys.stderr.isatty() and config.tuning_progress

    def step(self) -> None:
        """One more step is done."""
        self.done += 1
        if self.is_shown:
            filled = 20 * self.done // self.steps
            bar = "#" * filled + "." * (20 - filled)
            print(f"\r[tune] {self.what} [{bar}]", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """The line goes."""
        if self.is_shown:
            print("\r" + " " * (len(self.what) + 30) + "\r", end="", file=sys.stderr, flush=True)
