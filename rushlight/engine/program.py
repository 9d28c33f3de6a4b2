"""A compiled program, and where its results and temps lie for given sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rushlight.compiler.decisions import Decision
from rushlight.compiler.target import HostCall, KernelCall, LoadedPlan, Plan
from rushlight.engine.origin import lines_of
from rushlight.engine.signature import Recording
from rushlight.engine.template import Template
from rushlight.engine.timing import CallTimer
from rushlight.ir.symint_walk import evaluate
from rushlight.runtime.memory_plan import Lifetime, plan_memory


@dataclass(eq=False)
class Program:
    """A compiled recording. `plan` and `loaded` as in compiler.target."""

    template: Template
    plan: Plan
    loaded: LoadedPlan
    backend: str
    device: str = "cpu"
    layouts: dict[bytes, Layout] = field(default_factory=dict)
    # Made when somebody wants to know how long each kernel takes.
    timer: CallTimer | None = None

    def layout(self, values: np.ndarray) -> Layout:
        """Sizes of results and places of temps for these sizes."""
        key = values.tobytes()
        found = self.layouts.get(key)
        if found is None:
            if len(self.layouts) > 64:
                self.layouts.clear()
            found = self.layouts[key] = layout_of(self.plan, self.template.names, values)
        return found

    def __post_init__(self) -> None:
        # May a run write over what it reads?
        self.overwrites = bool(self.plan.reuse)
        self.input_count = sum(spec.kind == "input" for spec in self.plan.buffers)
        # Packed forms of inputs that could stay between runs (runtime/packed.py).
        self.keeps = getattr(self.loaded, "keeps", ())

    @property
    def may_fail(self) -> bool:
        """May a run end early: is an index checked, or the host asked?"""
        calls = (call for region in self.plan.regions for call in region)
        return bool(self.plan.checked_at) or any(isinstance(call, HostCall) for call in calls)


@dataclass(frozen=True)
class Layout:
    """result_bytes per result; offsets of temps in an arena of arena_bytes.

    new_bytes  of the results that get new memory; new_at: their positions (None: all)
    taken      inputs whose memory the other results get, in order
    updated    (temp, input) where a temp lies in an input's memory
    """

    result_bytes: tuple[int, ...]
    temp_offsets: np.ndarray
    arena_bytes: int
    offsets: list[int]
    new_bytes: tuple[int, ...]
    new_at: list[int] | None
    taken: list[int]
    updated: list[tuple[int, int]]


def layout_of(plan: Plan, names: tuple[str, ...], values: np.ndarray) -> Layout:
    env = dict(zip(names, values.tolist(), strict=True))
    nbytes = [spec.dtype.itemsize * evaluate(spec.size, env) for spec in plan.buffers]
    lifetimes = plan.lifetimes
    temps = [i for i, spec in enumerate(plan.buffers) if spec.kind == "temp"]
    memory = plan_memory([Lifetime(nbytes[i], *lifetimes.get(i, (0, 0))) for i in temps])
    places = [i for i, spec in enumerate(plan.buffers) if spec.kind == "result"]
    reuse: Mapping[int, int] = plan.reuse
    new = [(at, nbytes[i]) for at, i in enumerate(places) if i not in reuse]
    return Layout(
        tuple(nbytes[i] for i in places), np.array(memory.offsets, np.int64), memory.arena_bytes,
        list(memory.offsets), tuple(size for _, size in new),
        None if len(new) == len(places) else [at for at, _ in new],
        [reuse[i] for i in places if i in reuse],
        [(number, source) for number, source in reuse.items() if number in set(temps)],
    )  # fmt: skip


def measured(program: Program) -> list[tuple[str, Decision]]:
    """What was measured to choose schedules of its kernels: (the kernel's label, the choice)."""
    calls = (call for region in program.plan.regions for call in region)
    return [
        (call.label, decision)
        for call in calls
        if isinstance(call, KernelCall)
        for decision in getattr(call.executable, "decisions", ())
    ]


def lines_of_host_calls(program: Program, recording: Recording) -> dict[int, str]:
    """Place of a host call in the recording -> the user's lines that it comes from."""
    calls = (call for region in program.plan.regions for call in region)
    return {
        call.at: " or ".join(lines_of(recording.order[call.at]))
        for call in calls
        if isinstance(call, HostCall) and call.at is not None
    }
