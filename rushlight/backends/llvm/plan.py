"""A plan made ready to run: every table the native executor reads, filled with numpy.

In: a `Plan` of `LlvmExecutable` calls and host calls. Out: `LlvmPlan`, whose `run(pointers, ints,
numbers)` writes addresses, sizes and scalars into the tables and runs them. Always true: at run
time no Python loop goes over kernels. Addresses are one indexed copy; sizes that are constants
were written at load, those that are variables are one indexed copy, and the other expressions
are one function compiled at load; sizes are written only when they differ from the last run's.

All tables of a run lie in one array of 64-bit words (`Layout` says where), so `words[at] = values`
fills any of them. A kernel call of g grids takes part in g native regions, one after another.
A plan may be run by several Python threads, and by a host call of its own: each run has its own
words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import is_, itemgetter
from struct import Struct
from typing import Any

import numpy as np

from rushlight.backends.llvm.executor import Segment, Tables, run_segment
from rushlight.backends.llvm.pool_ir import LAUNCH_FIELDS, RUN_WORDS
from rushlight.backends.llvm.types import Launch, LlvmExecutable
from rushlight.compiler.host_calls import run_with_shapes
from rushlight.compiler.numbers import ScalarSlots
from rushlight.compiler.size_functions import compile_ints
from rushlight.compiler.target import Caps, HostCall, KernelCall, Plan
from rushlight.ir.symint import Expr, Var, mul
from rushlight.ir.symint_walk import substitute
from rushlight.runtime.buffer import Buffer, allocate
from rushlight.runtime.packed import Keep
from rushlight.runtime.threads import num_threads

# What one scalar operation of a cost hint takes, roughly: vector code in cache.
OP_PS = 150
MOST_SIZES = 64
# Handing out a unit of work costs threads about half a microsecond: a unit is as many instances as
# leave each thread UNITS_OF_THREAD of them, but not more than UNIT_PS takes (hints are often too
# high, up to thirty times).
UNITS_OF_THREAD = 32
UNIT_PS = 400_000_000
_LAUNCH_WORDS = len(LAUNCH_FIELDS)
_FIELD = {name: position for position, name in enumerate(LAUNCH_FIELDS)}


@dataclass
class Layout:
    """The words of a run, written once per plan; `template` has all that never changes.

    relative   (position, word) pairs: this word holds the address of that word
    variables  (position, variable): this word is a plain variable of the plan
    exprs      (position, expression over the plan's variables)
    pointers   the buffers whose addresses the words after all others hold
    """

    template: list[int] = field(default_factory=list)
    relative: list[tuple[int, int]] = field(default_factory=list)
    variables: list[tuple[int, int]] = field(default_factory=list)
    exprs: list[tuple[int, Expr]] = field(default_factory=list)
    pointers: list[int] = field(default_factory=list)
    scalars: ScalarSlots = field(default_factory=ScalarSlots)
    names: dict[str, int] = field(default_factory=dict)
    # What may stay packed between runs; its address comes after those of the buffers.
    keeps: list[Keep] = field(default_factory=list)
    unchanged: frozenset[int] = frozenset()
    buffers: int = 0
    has_panels: bool = False

    def put_kept(self, launch: Launch, buffers: Sequence[int]) -> None:
        """Pointers to panels (behind the call's own): one that is always 0 where a source changes
        in the run."""
        for keep in launch.keeps:
            sources = tuple(buffers[number] for number in keep.sources)
            place = self.buffers
            if self.unchanged.issuperset(sources):
                self.keeps.append(replace(keep, sources=sources))
                place += len(self.keeps)
            self.pointers.append(place)
            self.has_panels = True

    def put(self, *values: int | Expr) -> int:
        """Append words that are numbers or sizes; gives the position of the first."""
        start = len(self.template)
        for position, value in enumerate(values, start):
            self.template.append(0 if isinstance(value, Expr) else value)
            if isinstance(value, Var):
                self.variables.append((position, self.names[value.name]))
            elif isinstance(value, Expr):
                self.exprs.append((position, value))
        return start

    def put_pointers(self, buffers: Sequence[int]) -> int:
        """Gives the position in `pointers`: these words get their places at the end, together."""
        start = len(self.pointers)
        self.pointers.extend(buffers)
        return start

    def put_scalars(self, call: KernelCall) -> int:
        params = call.executable.program.params
        start = self.put(*[0] * len(params))
        for position, (number, param) in enumerate(zip(call.scalars, params, strict=True), start):
            self.scalars.add(position, number, param.dtype)
        return start


@dataclass
class _Step:
    """A launch on its way into the table, with its sizes over the plan's variables."""

    launch: Launch
    pointers: int
    tables: tuple[int, int]
    count: int | Expr
    cost_ps: int | Expr
    local_bytes: int | Expr


class LlvmPlan:
    """See `load`. Fits compiler.target.LoadedPlan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        layout = Layout(
            names={name: i for i, name in enumerate(plan.variables)},
            unchanged=_unchanged(plan), buffers=len(plan.buffers),
        )  # fmt: skip
        self._buffers, self._variables = len(plan.buffers), len(plan.variables)
        self._status_at = layout.put(0)
        self._words_at = layout.put(*[0] * RUN_WORDS)
        steps: list[list[_Step]] = []
        self._parts: list[Segment | tuple[HostCall, Callable[..., Any]]] = []
        for region in plan.regions:
            self._add_region(region, layout, steps)
        self._write_tables(layout, steps)
        self._freeze(layout)
        self.keeps = tuple(layout.keeps)
        # Behind the buffers' addresses: no panels.
        self._no_panels = [0] * (1 + len(self.keeps)) if layout.has_panels else []
        self._idle: list[_Run] = []

    def run(
        self, pointers: Sequence[int], ints: np.ndarray, numbers: Sequence[Any],
        panels: Sequence[int] = (),
    ) -> int:  # fmt: skip
        """Run the plan; the status word. A list of pointers, or an int64 array, is fast to give.
        panels: for each of `keeps` a place (runtime/packed.py)."""
        plan = self.plan
        if len(pointers) != self._buffers or len(ints) != self._variables:
            raise ValueError(
                f"run: {len(plan.buffers)} pointers and {len(plan.variables)} ints are expected, "
                f"got {len(pointers)} and {len(ints)}"
            )
        try:
            run = self._idle.pop()
        except IndexError:
            run = _Run(self)
        if self._no_panels:
            pointers = [*pointers, 0, *panels] if panels else [*pointers, *self._no_panels]
        # A run that is left half-way is not used again: its tables say how far it came.
        status = run.go(self, pointers, ints, numbers)
        self._idle.append(run)
        return status

    def _add_region(self, region: tuple, layout: Layout, steps: list[list[_Step]]) -> None:
        """Launch p of every kernel call goes into native region p of this region."""
        first = len(steps)
        for call in region:
            if isinstance(call, HostCall):
                continue
            for position, step in enumerate(_steps_of(call, layout), first):
                if position == len(steps):
                    steps.append([])
                steps[position].append(step)
        last = self._parts[-1] if self._parts else None
        if isinstance(last, Segment) and len(steps) > first:
            last.last = len(steps)
        elif len(steps) > first:
            self._parts.append(Segment(first, len(steps)))
        names = self.plan.variables
        for call in region:
            if isinstance(call, HostCall):
                sizes = [size for shape in call.shapes for size in shape]
                self._parts.append((call, compile_ints(sizes, names)))

    def _write_tables(self, layout: Layout, steps: list[list[_Step]]) -> None:
        flat = [step for region in steps for step in region]
        end: list[tuple[int, int]] = []  # word -> position among the pointers
        self._launches_at = len(layout.template)
        for step in flat:
            at = layout.put(
                step.launch.address, 0, 0, 0, step.count, step.launch.grain, step.cost_ps, 0
            )
            end.append((at + 1, step.pointers))
            layout.relative += zip((at + 2, at + 3), step.tables, strict=True)
        self._launch_count = len(flat)
        self.grains = [step.launch.grain for step in flat]
        self._regions_at = len(layout.template)
        done = 0
        for region in steps:
            layout.put(done, len(region), 0)
            done += len(region)
        self._locals_at = layout.put(*[step.local_bytes for step in flat], 0)
        self._locals_count = len(flat) + 1
        self.pointers_at = layout.put(*[0] * len(layout.pointers))
        layout.relative += [(word, self.pointers_at + position) for word, position in end]

    def _freeze(self, layout: Layout) -> None:
        """The layout as index arrays."""
        self.template = np.array(layout.template, np.int64)
        self.relative = np.array(layout.relative, np.int64).reshape(-1, 2).T
        self.variables = np.array(layout.variables, np.int64).reshape(-1, 2).T
        self.pointers = np.array(layout.pointers, np.int64)
        self.pick = _picker(layout.pointers)
        self.pack = Struct(f"{len(layout.pointers)}q").pack_into
        self.expr_at = np.array([position for position, _ in layout.exprs], np.int64)
        self.exprs = compile_ints([expr for _, expr in layout.exprs], self.plan.variables)
        self.sizes_at = np.concatenate([self.variables[0], self.expr_at])
        # The ints of a run -> words that depend on them, and what is derived from these.
        self.known_sizes: dict[bytes, tuple[np.ndarray, list[int], int, int]] = {}
        self.scalars = layout.scalars.freeze()


class _Run:
    """The words of one run, reused by the next."""

    def __init__(self, loaded: LlvmPlan) -> None:
        self.memory: Buffer = allocate(8 * len(loaded.template))
        words = np.asarray(self.memory).view(np.int64)
        words[:] = loaded.template
        words[loaded.relative[0]] = self.memory.address + 8 * loaded.relative[1]
        self.words = words
        launches = words[loaded._launches_at :][: _LAUNCH_WORDS * loaded._launch_count]
        self.launches = launches.reshape(-1, _LAUNCH_WORDS)
        self.local_bytes = words[loaded._locals_at :][: loaded._locals_count]
        self.ints: bytes | None = None
        self.numbers: tuple[Any, ...] = ()
        self.bytes = memoryview(words).cast("B")
        self.pointers = words[loaded.pointers_at :]
        start, whole = self.memory.address, memoryview(words)
        self.tables = Tables(
            regions=start + 8 * loaded._regions_at,
            launches=start + 8 * loaded._launches_at,
            status=whole[loaded._status_at : loaded._status_at + 1],
            status_at=start + 8 * loaded._status_at,
            words=whole[loaded._words_at : loaded._words_at + RUN_WORDS],
            words_at=start + 8 * loaded._words_at,
        )

    def go(
        self, loaded: LlvmPlan, addresses: Sequence[int], ints: np.ndarray, numbers: Sequence[Any]
    ) -> int:
        if addresses.__class__ is list:
            loaded.pack(self.bytes, 8 * loaded.pointers_at, *loaded.pick(addresses))
        else:
            self.pointers[...] = np.asarray(addresses, np.int64)[loaded.pointers]
        if self.ints is None or (len(ints) and self.ints != ints.tobytes()):
            self._set_sizes(loaded, ints)
        if len(self.numbers) != len(numbers) or not all(map(is_, numbers, self.numbers)):
            loaded.scalars.write(self.words, numbers)
            self.numbers = tuple(numbers)
        status = self.tables.status
        status[0] = 0
        for part in loaded._parts:
            if isinstance(part, Segment):
                run_segment(self.tables, part)
            else:
                _run_host(loaded.plan, *part, addresses, ints)
            if status[0]:
                break
        return int(status[0])

    def _set_sizes(self, loaded: LlvmPlan, ints: np.ndarray) -> None:
        self.ints = None
        words, given = self.words, ints.tobytes()
        known = loaded.known_sizes.get(given)
        if known is not None:
            words[loaded.sizes_at], grains, self.tables.work_ps, self.tables.local_bytes = known
            self.launches[:, _FIELD["grain"]] = grains
            self.ints = given
            return
        words[loaded.variables[0]] = ints[loaded.variables[1]]
        if len(loaded.expr_at):
            words[loaded.expr_at] = loaded.exprs(*ints.tolist())
        counts = self.launches[:, _FIELD["count"]]
        # As floats: a wrong hint must not wrap around.
        one = self.launches[:, _FIELD["cost_ps"]]
        costs = counts * one.astype(np.float64)
        units = UNITS_OF_THREAD * num_threads()
        grains = [
            max(least, min(count // units, UNIT_PS // max(cost, 1)))
            for least, count, cost in zip(loaded.grains, counts.tolist(), one.tolist(), strict=True)
        ]
        self.launches[:, _FIELD["grain"]] = grains
        self.tables.work_ps = int(min(costs.sum(), 1e18))
        self.tables.local_bytes = int(self.local_bytes.max())
        self.ints = given
        if len(loaded.known_sizes) >= MOST_SIZES:
            loaded.known_sizes.clear()
        loaded.known_sizes[given] = (
            words[loaded.sizes_at], grains, self.tables.work_ps, self.tables.local_bytes
        )  # fmt: skip


def _steps_of(call: KernelCall, layout: Layout) -> list[_Step]:
    """The launches of a call; its pointers, ints and scalars are put into the layout."""
    executable: LlvmExecutable = call.executable  # type: ignore[assignment]
    program = executable.program
    wanted = (len(program.buffers) + len(executable.scratch), len(program.sizes))
    given = (len(call.buffers), len(call.ints))
    if wanted != given or len(program.params) != len(call.scalars):
        raise ValueError(
            f"load: call {call.label!r} of {program.name} gives {given[0]} buffers, {given[1]} "
            f"ints, {len(call.scalars)} scalars; it takes {wanted[0]}, {wanted[1]}, "
            f"{len(program.params)}"
        )
    pointers = layout.put_pointers(call.buffers)
    for launch in executable.launches:
        layout.put_kept(launch, call.buffers)
    tables = (layout.put(*call.ints), layout.put_scalars(call))
    sizes = {var.name: value for var, value in zip(program.sizes, call.ints, strict=True)}
    steps = []
    for launch in executable.launches:
        if launch.address == 0 or launch.grain < 1:
            raise ValueError(
                f"load: launch {launch.symbol} has address {launch.address} and grain "
                f"{launch.grain}; it must be loaded and its grain at least 1"
            )
        count, cost, local = (
            substitute(value, sizes)
            for value in (launch.instances, launch.cost, launch.local_bytes)
        )
        steps.append(_Step(launch, pointers, tables, count, mul(cost, OP_PS), local))
    return steps


def _picker(places: list[int]) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """A function that takes these items of a sequence, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda items: tuple([items[place] for place in places])


def _run_host(
    plan: Plan,
    call: HostCall,
    sizes_of: Callable[..., Any],
    addresses: Sequence[int],
    ints: np.ndarray,
) -> None:
    sizes = iter(sizes_of(*ints.tolist()))
    shapes = [tuple(islice(sizes, len(shape))) for shape in call.shapes]
    run_with_shapes(call, plan, addresses, shapes)


def _unchanged(plan: Plan) -> frozenset[int]:
    """The inputs that a run does not write over."""
    inputs = {number for number, spec in enumerate(plan.buffers) if spec.kind == "input"}
    return frozenset(inputs.difference(plan.reuse.values()))


def load(plan: Plan, caps: Caps) -> LlvmPlan:
    """Prepare a plan for running (the `load` of the backend's manifest)."""
    return LlvmPlan(plan)
