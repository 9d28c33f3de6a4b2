"""Compiled programs in memory: templates over sizes, found by structure, then by matching.

A structure seen with one set of sizes and offsets gives a static program. Seen with another, it
gives a program in which all that differed is variable (sizes at positions that always had equal
values share a variable); static and symbolic programs give equal bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rushlight.backends import find_backend
from rushlight.base.config import config
from rushlight.base.deferred import deferred
from rushlight.base.devices import DEVICES
from rushlight.compiler.decisions import SILENT, Trace
from rushlight.compiler.given import Builder
from rushlight.compiler.target import Backend, Caps, Executable, Plan
from rushlight.compiler.tile.ir import Program as TileProgram
from rushlight.engine import watch
from rushlight.engine.devices import backend_for, device_for
from rushlight.engine.few import KnownFew
from rushlight.engine.kernels import build_kernels, refuse_early
from rushlight.engine.program import Program
from rushlight.engine.signature import Recording, offset_positions
from rushlight.engine.stored_plans import find_plan, keep_plan, key_of
from rushlight.engine.symbolic_graph import symbolic_graph
from rushlight.engine.template import Template, make_template
from rushlight.ir.node import Node

# A process whose plans are on disk runs no pass.
compile_graph = deferred("rushlight.compiler.pipeline", "compile_graph")

# Sets of sizes of a structure that get a program of their own, with `max_autotune`.
MOST_TUNED = 4
MAX_FAMILIES = 1024  # structures whose programs (and code) stay in memory


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
        # Programs of looks where little waits; emptied when families are dropped.
        self.few: dict[tuple, KnownFew] = {}
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
                self.few.clear()
            family = self._families[key] = _Family()
        self._clock += 1
        family.used = self._clock
        return family

    def forget(self, told: int) -> None:
        """Drop the programs of an explanation that is over."""
        with self._lock:
            for key in [key for key in self._families if key.told == told]:
                del self._families[key]
            self.few.clear()

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
        self.kernels += len(program.plan.kernels)
        return program


def _note_kernels(plan: Plan, built: list[tuple[Executable, str, str]], key: str | None) -> None:
    """Where each kernel came from, for people; `key`: under which the plan is kept on disk."""
    words = iter(word for _, _, word in built)
    plan.how = ["host" if info.program is None else next(words) for info in plan.kernels]
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
    graph = replace(graph, most_buffers=caps.max_buffers, one_pass_rows=caps.one_pass_rows)
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
