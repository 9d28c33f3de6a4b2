"""Plans of thread programs made ready to run, for any device that can launch a kernel.

In: a `Plan` of `GroupExecutable` calls and host calls, and a `Device`. Out: `GroupPlan`, a
LoadedPlan. Always true: what depends on sizes only (how many groups, passes of a sort, the words
that kernels read) is worked out once per set of sizes; a run writes the numbers and launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rushlight.backends.cfamily import code as c
from rushlight.base.dtypes import DType
from rushlight.compiler.decisions import Decision
from rushlight.compiler.host_calls import run_host_call
from rushlight.compiler.numbers import ScalarSlots
from rushlight.compiler.target import HostCall, KernelCall, Plan
from rushlight.compiler.tile.ir import Program
from rushlight.ir import scalar
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import evaluate

ALIGN_WORDS = 32  # the words of a launch start at a multiple of 256 bytes, as some devices want
MOST_LAYOUTS = 64


@dataclass(frozen=True, eq=False)
class GroupExecutable:
    """A compiled thread program.

    functions  one per kernel: what the device launches
    source     the text that was compiled
    binary     what the disk cache keeps
    decisions  how it is run and why, for `explain`
    """

    program: Program
    lowered: c.ThreadProgram
    functions: tuple[Any, ...]
    source: str = ""
    binary: bytes = b""
    decisions: tuple[Decision, ...] = ()

    @property
    def scratch(self) -> tuple[tuple[DType, int | Expr], ...]:
        return tuple((array.dtype, array.size) for array in self.lowered.scratch)

    @property
    def checks(self) -> bool:
        """Does a kernel check an index?"""
        return any(checks_index(kernel) for kernel in self.lowered.kernels)


@dataclass(frozen=True, eq=False)
class Launch:
    """One kernel with sizes that are numbers. buffers: numbers of plan buffers; words: where its
    words start, and how many they are; nbytes: of all its buffers together."""

    function: Any
    kernel: c.Kernel
    groups: int
    buffers: tuple[int, ...]
    words: slice
    nbytes: int


class Session(Protocol):
    """One run of a plan on a device."""

    def launch(self, launch: Launch) -> None: ...

    def status(self) -> int:
        """The status word, when all launches so far are done."""
        ...

    def to_host(self, numbers: Iterable[int]) -> None:
        """These buffers of the plan hold in host memory what the device wrote."""
        ...

    def to_device(self, numbers: Iterable[int]) -> None:
        """The device sees what the host wrote to these buffers."""
        ...


# (addresses, sizes of the plan's buffers in bytes, words of all launches, plan) -> session
Begin = Callable[[Sequence[int], Sequence[int], np.ndarray, Plan], Session]


@dataclass
class _Layout:
    """All launches of a plan for one set of sizes. `parts`: launches, host calls, and True where
    the status must be looked at."""

    parts: list[Launch | HostCall | bool]
    words: np.ndarray
    scalars: ScalarSlots
    nbytes: list[int]
    env: dict[str, int]


def sizes_at(pointers: Sequence[int], nbytes: Sequence[int]) -> dict[int, int]:
    """The bytes that lie at each address. Temporary values that live one after another start at one
    address and differ in size: a device's copy must hold the largest."""
    found: dict[int, int] = {}
    for pointer, size in zip(map(int, pointers), nbytes, strict=True):
        found[pointer] = max(size, found.get(pointer, 0))
    return found


class GroupPlan:
    """Fits compiler.target.LoadedPlan."""

    def __init__(self, plan: Plan, begin: Begin) -> None:
        self.plan, self.begin = plan, begin
        self._layouts: dict[bytes, _Layout] = {}
        self._results = [i for i, spec in enumerate(plan.buffers) if spec.kind == "result"]

    def run(self, pointers: Sequence[int], ints: np.ndarray, numbers: Sequence[Any]) -> int:
        layout = self._layout(np.asarray(ints, np.int64))
        words = layout.words.copy()
        layout.scalars.write(words, numbers)
        session = self.begin(pointers, layout.nbytes, words, self.plan)
        for part in layout.parts:
            if isinstance(part, Launch):
                session.launch(part)
                continue
            status = session.status()
            if status:
                return status
            if isinstance(part, HostCall):
                session.to_host(part.inputs)
                run_host_call(part, self.plan, pointers, layout.env)
                session.to_device(part.outputs)
        status = session.status()
        session.to_host(self._results)
        return status

    def _layout(self, ints: np.ndarray) -> _Layout:
        key = ints.tobytes()
        if key not in self._layouts:
            if len(self._layouts) >= MOST_LAYOUTS:
                self._layouts.clear()
            self._layouts[key] = _Builder(self.plan, ints).build()
        return self._layouts[key]


class _Builder:
    def __init__(self, plan: Plan, ints: np.ndarray) -> None:
        self.plan = plan
        self.env = dict(zip(plan.variables, map(int, ints), strict=True))
        self.nbytes = [spec.dtype.itemsize * evaluate(spec.size, self.env) for spec in plan.buffers]
        self.words: list[int] = []
        self.scalars = ScalarSlots()

    def build(self) -> _Layout:
        parts: list[Launch | HostCall | bool] = []
        for region in self.plan.regions:
            for call in region:
                if isinstance(call, HostCall):
                    parts.append(call)
                else:
                    parts += self._launches(call)
            if any(isinstance(call, KernelCall) and call.executable.checks for call in region):  # type: ignore[attr-defined]
                parts.append(True)
        words = np.array([*self.words, 0], np.int64)
        return _Layout(parts, words, self.scalars.freeze(), self.nbytes, self.env)

    def _launches(self, call: KernelCall) -> list[Launch]:
        executable: GroupExecutable = call.executable  # type: ignore[assignment]
        sizes = {
            var.name: evaluate(value, self.env)
            for var, value in zip(executable.program.sizes, call.ints, strict=True)
        }
        found = []
        for kernel, function in zip(executable.lowered.kernels, executable.functions, strict=True):
            groups = evaluate(kernel.groups, sizes)
            for passes in passes_of(kernel, sizes) if groups > 0 else ():
                words = self._put(call, sizes, passes)
                nbytes = sum(self.nbytes[b] for b in call.buffers)
                found.append(Launch(function, kernel, groups, call.buffers, words, nbytes))
        return found

    def _put(self, call: KernelCall, sizes: Mapping[str, int], passes: tuple[int, ...]) -> slice:
        """The words of one launch."""
        start = len(self.words)
        program = call.executable.program
        first = start + len(sizes)
        for position, (number, param) in enumerate(
            zip(call.scalars, program.params, strict=True), first
        ):
            self.scalars.add(position, number, param.dtype)
        self.words += [*sizes.values(), *[0] * len(program.params), *passes]
        stop = len(self.words)
        self.words += [0] * (-stop % ALIGN_WORDS)
        return slice(start, stop)


def passes_of(kernel: c.Kernel, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
    """TURN, WIDTH and TURNS of each launch of a kernel."""
    if kernel.passes is None:
        return [()]
    widths = []
    width, stop = kernel.passes.start, evaluate(kernel.passes.stop, sizes)
    while width < stop:
        widths.append(width)
        width *= 2
    if not kernel.passes.each:
        return [(0, 0, len(widths))]
    return [(turn, width, len(widths)) for turn, width in enumerate(widths)]


def checks_index(kernel: c.Kernel) -> bool:
    values = [v if isinstance(v, scalar.E) else scalar.index(v) for v in c.values_in(kernel.body)]
    return any(e.op == "check_index" for e in scalar.topological(tuple(values)))
