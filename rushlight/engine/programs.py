"""Compiled programs in memory: templates over sizes, found by structure, then by matching.

A structure seen with one set of sizes and offsets gives a static program. Seen with another, it
gives a program in which all that differed is variable (sizes at positions that always had equal
values share a variable); static and symbolic programs give equal bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rushlight.backends import find_backend
from rushlight.base.config import config
from rushlight.base.deferred import deferred
from rushlight.base.devices import DEVICES
from rushlight.compiler.decisions import SILENT, Decision, Trace
from rushlight.compiler.given import Builder, Graph, NumberSlot
from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import (
    Backend,
    Caps,
    Executable,
    HostCall,
    KernelCall,
    LoadedPlan,
    Plan,
)
from rushlight.compiler.tile.ir import Program as TileProgram
from rushlight.engine import watch
from rushlight.engine.devices import backend_for, device_for
from rushlight.engine.kernels import build_kernels, refuse_early
from rushlight.engine.origin import lines_of
from rushlight.engine.signature import Recording, attr_kinds, offset_positions
from rushlight.engine.stored_plans import find_plan, keep_plan, key_of
from rushlight.engine.template import Template, make_template
from rushlight.engine.timing import CallTimer
from rushlight.ir.node import Node, buffer_node, make_node, scalar_node
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import evaluate
from rushlight.runtime.memory_plan import Lifetime, plan_memory

# A process whose plans are on disk runs no pass.
compile_graph = deferred("rushlight.compiler.pipeline", "compile_graph")

# Sets of sizes of a structure that get a program of their own, with `max_autotune`.
MOST_TUNED = 4
MAX_FAMILIES = 1024  # structures whose programs (and code) stay in memory


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
            found = self.layouts[key] = _layout(self.plan, self.template.names, values)
        return found

    def __post_init__(self) -> None:
        # May a run write over what it reads?
        self.overwrites = bool(self.plan.meta["reuse"])
        self.input_count = sum(spec.kind == "input" for spec in self.plan.buffers)
        # Packed forms of inputs that could stay between runs (runtime/packed.py).
        self.keeps = getattr(self.loaded, "keeps", ())

    @property
    def may_fail(self) -> bool:
        """May a run end early: is an index checked, or the host asked?"""
        calls = (call for region in self.plan.regions for call in region)
        return bool(self.plan.meta["checked_at"]) or any(
            isinstance(call, HostCall) for call in calls
        )


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


def _layout(plan: Plan, names: tuple[str, ...], values: np.ndarray) -> Layout:
    env = dict(zip(names, values.tolist(), strict=True))
    nbytes = [spec.dtype.itemsize * evaluate(spec.size, env) for spec in plan.buffers]
    lifetimes = plan.meta["lifetimes"]
    temps = [i for i, spec in enumerate(plan.buffers) if spec.kind == "temp"]
    memory = plan_memory([Lifetime(nbytes[i], *lifetimes.get(i, (0, 0))) for i in temps])
    places = [i for i, spec in enumerate(plan.buffers) if spec.kind == "result"]
    reuse: Mapping[int, int] = plan.meta["reuse"]
    new = [(at, nbytes[i]) for at, i in enumerate(places) if i not in reuse]
    return Layout(
        tuple(nbytes[i] for i in places), np.array(memory.offsets, np.int64), memory.arena_bytes,
        list(memory.offsets), tuple(size for _, size in new),
        None if len(new) == len(places) else [at for at, _ in new],
        [reuse[i] for i in places if i in reuse],
        [(number, source) for number, source in reuse.items() if number in set(temps)],
    )  # fmt: skip


class _Key(NamedTuple):
    """What the programs of a family share. told: `watch.program_family()`."""

    structure: tuple
    donated: frozenset[int]
    backend: str
    device: str
    told: int | str
    tuned: bool


@dataclass
class _Family:
    """All programs of one structure, and the ints with which it was seen."""

    samples: list[tuple[int, ...]] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    # What was found for these ints before.
    known: dict[tuple[int, ...], tuple[Program, np.ndarray]] = field(default_factory=dict)
    used: int = 0  # when, by a counter


def _next_template(samples: list[tuple[int, ...]], recording: Recording) -> Template:
    """What may vary in the next program of a family, by all ints that were seen. Schedules are
    measured where sizes are numbers, so there some sets of them get a program each."""
    if config.max_autotune and len(samples) <= MOST_TUNED:
        samples = samples[-1:]
    ints = np.array(samples, np.int64).reshape(len(samples), -1)
    return make_template(ints, offset_positions(recording))


class ProgramCache:
    """Finds or compiles the program of a recording."""

    def __init__(self) -> None:
        self._families: dict[_Key, _Family] = {}
        self._lock = threading.RLock()
        self._clock = 0
        self.compiled = 0
        self.kernels = 0

    def find(
        self, recording: Recording, donated: frozenset[int], site_text: Callable[[Node], str]
    ) -> tuple[Program, np.ndarray]:
        """The program and the values of its variables."""
        device = device_for(recording.roots) if DEVICES.used else "cpu"
        backend_name = backend_for(device)
        told = watch.program_family()
        key = _Key(recording.key, donated, backend_name, device, told, config.max_autotune)
        with self._lock:
            family = self._family(key)
            known = family.known.get(recording.ints)
            if known is not None:
                return known
            ints = np.array(recording.ints, np.int64)
            if len(family.known) > 64:
                family.known.clear()
            for program in family.programs:
                values = program.template.match(ints)
                if values is not None:
                    family.known[recording.ints] = program, values
                    return program, values
            family.samples.append(recording.ints)
            template = _next_template(family.samples, recording)
            try:
                program = self.make(recording, template, donated, backend_name, site_text)
                program.device = device
            except BaseException:
                family.samples.pop()
                raise
            # A program that fits more sizes replaces the symbolic ones before it.
            fixed = [old for old in family.programs if not old.template.names]
            family.programs = [*fixed, program]
            family.known.clear()
            values = template.match(ints)
            assert values is not None
            return program, values

    def _family(self, key: _Key) -> _Family:
        """The family of a structure, now the latest used; the least used is dropped when full."""
        family = self._families.get(key)
        if family is None:
            if len(self._families) >= MAX_FAMILIES:
                by_use = sorted(self._families, key=lambda k: self._families[k].used)
                for old in by_use[: max(1, MAX_FAMILIES // 8)]:
                    del self._families[old]
            family = self._families[key] = _Family()
        self._clock += 1
        family.used = self._clock
        return family

    def forget(self, told: int) -> None:
        """Drop the programs of an explanation that is over."""
        with self._lock:
            for key in [key for key in self._families if key.told == told]:
                del self._families[key]

    def make(
        self,
        recording: Recording,
        template: Template,
        donated: frozenset[int],
        backend_name: str,
        site_text: Callable[[Node], str],
    ) -> Program:
        """Compile; a subclass may make something else that has a template."""
        backend = find_backend(backend_name)
        caps = backend.require()
        trace = watch.compile_trace(self.compiled, backend, caps, lambda: sample_of(recording))
        # Whoever listens, or wants checks, wants the passes: a plan from disk knows no lines.
        is_plain = trace is SILENT and config.check == 0 and not watch.is_watched()
        key = key_of(recording, template, donated, backend, caps) if is_plain else None
        found = None if key is None else find_plan(key, recording.order, backend, caps)
        if found is not None:
            program = Program(template, *found, backend_name)
        else:
            built: list[tuple[Executable, str, str]] = []
            program = compile_recording(
                recording, template, donated, backend, caps, site_text,
                lambda programs: build_kernels(programs, backend, caps, built), trace, self.kernels,
            )  # fmt: skip
            _note_kernels(program.plan, built, key)
        self.compiled += 1
        self.kernels += len(program.plan.meta["kernels"])
        return program


def _note_kernels(plan: Plan, built: list[tuple[Executable, str, str]], key: str | None) -> None:
    """Where each kernel came from, for people; `key`: under which the plan is kept on disk."""
    words = iter(word for _, _, word in built)
    infos = plan.meta["kernels"]
    plan.meta["how"] = ["host" if info.program is None else next(words) for info in infos]
    if key is not None:
        names = {id(executable): name for executable, name, _ in built}
        keep_plan(key, plan, lambda executable: names[id(executable)])


def compile_recording(
    recording: Recording,
    template: Template,
    donated: frozenset[int],
    backend: Backend,
    caps: Caps,
    site_text: Callable[[Node], str],
    build: Builder | None = None,
    trace: Trace = SILENT,
    first: int = 0,
) -> Program:
    """The program of a recording, compiled now. `build`: the backend's own, if None."""
    graph = symbolic_graph(recording, template, donated, site_text)
    graph = replace(graph, most_buffers=caps.max_buffers)
    if build is None:
        build = partial(_build_unkept, backend, caps)
    plan = compile_graph(graph, build, trace, verify=config.check >= 1, first=first)
    return Program(template, plan, backend.load(plan, caps), backend.name)


def _build_unkept(
    backend: Backend, caps: Caps, programs: Sequence[TileProgram]
) -> list[Executable]:
    refuse_early(programs, backend, caps)
    return backend.build(programs, caps)


def sample_of(recording: Recording) -> tuple[list[np.ndarray], tuple[Any, ...]]:
    """Values of the inputs and the numbers, for checks (looked at before the program runs)."""
    arrays = [node.buffer.view(node.dtype, node.shape) for node in recording.inputs]
    return arrays, recording.numbers


def symbolic_graph(
    recording: Recording,
    template: Template,
    donated: frozenset[int],
    site_text: Callable[[Node], str],
) -> Graph:
    """The recorded graph with slots for inputs and numbers, and variables for varying sizes."""
    values = [recording.ints[p] for p in template.first.tolist()]
    rebuild = _Rebuild(template.sizes(recording.ints))
    new = rebuild.run(recording)
    inputs = tuple(new[node] for node in recording.inputs)
    origin = {new[node]: node for node in recording.order}
    return Graph(
        inputs,
        tuple(new[root] for root in recording.roots),
        frozenset(inputs[i] for i in donated),
        template.names,
        Hints(dict(zip(template.names, values, strict=True))),
        lambda node: site_text(origin.get(node, node)),
        lambda node: lines_of(origin.get(node, node)),
        recording.numbers,
        {new[node]: i for i, node in enumerate(recording.order)},
    )


class _Rebuild:
    """Reads the ints in the order in which `signature.record` wrote them."""

    def __init__(self, ints: list[int | Expr]) -> None:
        self._ints = iter(ints)

    def run(self, recording: Recording) -> dict[Node, Node]:
        new: dict[Node, Node] = {}
        scalars = 0
        for node in recording.order:
            if node.leaf == "buffer":
                new[node] = buffer_node(None, self._sizes(node.shape), node.dtype)
            elif node.leaf == "scalar":
                new[node] = scalar_node(NumberSlot(scalars), node.dtype)
                scalars += 1
            elif node.leaf:
                new[node] = node
            else:
                op = node.op
                assert op is not None
                attrs = tuple(
                    self._attr(kind, value)
                    for kind, value in zip(attr_kinds(op), node.attrs, strict=False)
                )
                src = tuple(new[s] for s in node.src)
                new[node] = make_node(op, src, attrs, self._sizes(node.shape), node.dtype)
        return new

    def _sizes(self, shape: tuple) -> tuple:
        return tuple(next(self._ints) if size > 1 else size for size in shape)

    def _attr(self, kind: str, value: Any) -> Any:
        if not kind or value is None:
            return value
        if kind == "sizes":
            return self._sizes(value)
        if kind == "size":
            return self._sizes((value,))[0]
        if kind == "offset":
            return next(self._ints)
        return tuple(next(self._ints) for _ in value)


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
