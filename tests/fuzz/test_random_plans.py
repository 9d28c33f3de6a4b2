"""Plans of random graphs, looked at without running them: order, regions, memory.

No code is built, so many graphs can be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import fuzz_graphs
import numpy as np
import pytest

from rushlight.compiler.pipeline import compile_graph
from rushlight.compiler.target import HostCall, KernelCall, Plan
from rushlight.compiler.tile.ir import Program
from rushlight.engine.program import layout_of
from rushlight.engine.signature import offset_positions, record
from rushlight.engine.symbolic_graph import symbolic_graph
from rushlight.engine.template import make_template
from rushlight.ir.symint_walk import evaluate


@dataclass
class Unbuilt:
    program: Program
    scratch: tuple = ()


@dataclass
class Planned:
    plan: Plan
    names: tuple[str, ...]
    values: np.ndarray


def plan_of(seed: int, donate: bool, symbolic: bool) -> Planned:
    recording = record(fuzz_graphs.generate(seed).roots)
    ints = np.array(recording.ints, np.int64)
    samples = np.stack([ints, ints * 2 + 1]) if symbolic else ints[None]
    template = make_template(samples, offset_positions(recording))
    donated = frozenset(range(len(recording.inputs)) if donate else ())
    graph = symbolic_graph(recording, template, donated, lambda node: node.name)
    plan = compile_graph(graph, lambda programs: [Unbuilt(p) for p in programs], verify=True)
    values = template.match(ints)
    assert values is not None
    return Planned(plan, template.names, values)


def reads_and_writes(call: KernelCall | HostCall) -> tuple[set[int], set[int]]:
    if isinstance(call, HostCall):
        return set(call.inputs), set(call.outputs)
    roles = [b.role for b in call.executable.program.buffers]
    pairs = list(zip(call.buffers, roles, strict=True))
    reads = {b for b, role in pairs if role in ("in", "inout")}
    return reads, {b for b, role in pairs if role != "in"}


def check_regions(plan: Plan) -> None:
    """Calls of a region do not touch each other's data; what is read was written before."""
    ready = {i for i, spec in enumerate(plan.buffers) if spec.kind == "input"}
    reuse = plan.reuse
    for region in plan.regions:
        touched = [reads_and_writes(call) for call in region]
        for i, (reads, writes) in enumerate(touched):
            for other_reads, other_writes in touched[:i]:
                assert not writes & other_writes, "two calls of a region write one buffer"
                assert not writes & other_reads and not reads & other_writes
        for reads, writes in touched:
            fresh = {b for b in reads if b not in ready and reuse.get(b) not in ready}
            fresh -= {b for b in fresh if plan.buffers[b].size == 0}  # no elements, no kernel
            assert not fresh - writes, "a buffer is read before it is written"
            assert not fresh, "an updated buffer has no old value"
        for _, writes in touched:
            ready |= writes
    results = {i for i, spec in enumerate(plan.buffers) if spec.kind == "result"}
    results -= {i for i in results if plan.buffers[i].size == 0}
    assert results <= ready, "a result is never written"


def check_reuse(plan: Plan) -> None:
    """Memory that a result takes over is not read later, and taken once."""
    reuse = {k: v for k, v in plan.reuse.items() if k != v}
    assert len(set(reuse.values())) == len(reuse)
    for result, source in reuse.items():
        assert plan.buffers[result].kind == "result" and plan.buffers[source].kind == "input"
        taken = None
        for number, region in enumerate(plan.regions):
            for call in region:
                reads, writes = reads_and_writes(call)
                if result in writes:
                    taken = number
                    taker = call
                elif taken is not None:
                    assert source not in reads, "read after it was overwritten"
        assert taken is not None
        for call in plan.regions[taken]:
            assert call is taker or source not in reads_and_writes(call)[0]


def check_memory(planned: Planned) -> None:
    """Temps that are alive in one region do not overlap."""
    plan = planned.plan
    layout = layout_of(plan, planned.names, planned.values)
    temps = [i for i, spec in enumerate(plan.buffers) if spec.kind == "temp"]
    places = dict(zip(temps, layout.temp_offsets.tolist(), strict=True))
    sizes = sizes_of(planned, temps)
    for number, region in enumerate(plan.regions):
        alive = [i for i in temps if lives(plan, i, number)]
        used = {b for call in region for b in call_buffers(call)}
        assert used & set(temps) <= set(alive)
        spans = sorted((places[i], places[i] + sizes[i]) for i in alive if sizes[i])
        for (_, end), (start, _) in zip(spans, spans[1:], strict=False):
            assert end <= start, "two living temps share memory"
        assert all(end <= layout.arena_bytes for _, end in spans)


def call_buffers(call: Any) -> Sequence[int]:
    return (*call.inputs, *call.outputs) if isinstance(call, HostCall) else call.buffers


def lives(plan: Plan, buffer: int, region: int) -> bool:
    first, last = plan.lifetimes[buffer]
    return first <= region <= last


def sizes_of(planned: Planned, temps: Sequence[int]) -> dict[int, int]:
    env = dict(zip(planned.names, planned.values.tolist(), strict=True))
    specs = planned.plan.buffers
    return {i: specs[i].dtype.itemsize * evaluate(specs[i].size, env) for i in temps}


def check_plan(seed: int, donate: bool, symbolic: bool) -> None:
    planned = plan_of(seed, donate, symbolic)
    check_regions(planned.plan)
    check_reuse(planned.plan)
    check_memory(planned)


@pytest.mark.parametrize("donate", [False, True])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_plans_have_no_hazards(donate: bool, symbolic: bool, block: int) -> None:
    for seed in range(block * 12, block * 12 + 12):
        check_plan(seed, donate, symbolic)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5000, 6500))
def test_more_plans_have_no_hazards(seed: int) -> None:
    check_plan(seed, donate=seed % 2 == 0, symbolic=seed % 3 == 0)
