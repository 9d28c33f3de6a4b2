"""Kernels -> plan: numbered buffers, regions of independent calls, memory taken over in place.

Buffers are numbered inputs first, then results (one per root, in order), then temps. A region holds
the steps of one level of the dependence graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rushlight.compiler.step import HostStep, Step, may_fail
from rushlight.compiler.take_over import TakeOver
from rushlight.compiler.target import BufferSpec, Executable, HostCall, KernelCall, Plan
from rushlight.compiler.tile.kernel import Kernel
from rushlight.ir.node import Node
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import substitute


@dataclass
class _Table:
    """Numbering of the buffers."""

    specs: list[BufferSpec] = field(default_factory=list)
    number: dict[object, int] = field(default_factory=dict)

    def add(self, key: object, spec: BufferSpec) -> int:
        self.number[key] = len(self.specs)
        self.specs.append(spec)
        return self.number[key]


def assemble(
    steps: Sequence[Step],
    executables: Sequence[Executable | None],
    inputs: Sequence[Node],
    roots: Sequence[Node],
    donated: frozenset[Node],
    variables: tuple[str, ...],
    sites: tuple[str, ...],
) -> Plan:
    table = _Table()
    for node in inputs:
        table.add(node, BufferSpec(node.dtype, node.numel(), "input"))
    for node in roots:
        table.add(node, BufferSpec(node.dtype, node.numel(), "result"))
    for step in steps:
        for result, source in step.inplace if isinstance(step, Kernel) else ():
            # An updated input that is not itself wanted stays where it is.
            table.number.setdefault(result, table.number[source])
    calls = [_call(step, exe, table) for step, exe in zip(steps, executables, strict=True)]
    reads = [_reads(step, table) for step in steps]
    writes = [_writes(step, call, table) for step, call in zip(steps, calls, strict=True)]
    must_wait = [i for i, step in enumerate(steps) if isinstance(step, Kernel) and step.inplace]
    failing = [i for i, step in enumerate(steps) if may_fail(step)] if must_wait else []
    levels = _levels(reads, writes, len(inputs), dict.fromkeys(must_wait, failing))
    waited = {step for needed in _dependences(reads, writes, len(inputs))[0] for step in needed}
    results = frozenset(table.number[root] for root in roots)
    reuse = TakeOver(steps, levels, reads, waited, table.number, results, donated).run()
    regions = _regions(levels)
    return Plan(
        tuple(table.specs),
        tuple(tuple(calls[i] for i in region) for region in regions),
        variables,
        sites,
        order=tuple(step for region in regions for step in region),
        reuse=reuse,
        lifetimes=_lifetimes(regions, reads, writes),
    )


def _call(step: Step, executable: Executable | None, table: _Table) -> KernelCall | HostCall:
    if isinstance(step, HostStep):
        ids = tuple(table.number[node] for node in step.inputs)
        out = _number_of(step.node, table)
        shapes = (*(node.shape for node in step.inputs), step.node.shape)
        return HostCall(step.fn, ids, (out,), shapes, step.node.name, step.at, step.node.attrs)
    assert executable is not None
    ids = []
    for buffer, node in zip(step.program.buffers, step.nodes, strict=True):
        if node is None:
            size = _over_plan(buffer.size, step)
            ids.append(table.add(object(), BufferSpec(buffer.dtype, size, "temp")))
        else:
            ids.append(_number_of(node, table))
    for dtype, size in executable.scratch:
        spec = BufferSpec(dtype, _over_plan(size, step), "temp")
        ids.append(table.add(object(), spec))
    return KernelCall(executable, tuple(ids), step.ints, step.slots, step.program.name)


def _over_plan(size: int | Expr, step: Kernel) -> int | Expr:
    """A size over the kernel's own variables, over those of the plan."""
    names = [var.name for var in step.program.sizes]
    return substitute(size, dict(zip(names, step.ints, strict=True)))


def _number_of(node: Node, table: _Table) -> int:
    if node not in table.number:
        table.add(node, BufferSpec(node.dtype, node.numel(), "temp"))
    return table.number[node]


def _reads(step: Step, table: _Table) -> set[int]:
    if isinstance(step, HostStep):
        return {table.number[node] for node in step.inputs}
    return {
        table.number[node]
        for node, buffer in zip(step.nodes, step.program.buffers, strict=True)
        if node is not None and buffer.role == "in"
    }


def _writes(step: Step, call: KernelCall | HostCall, table: _Table) -> set[int]:
    if isinstance(call, HostCall):
        return set(call.outputs)
    return set(call.buffers) - _reads(step, table)


def _levels(
    reads: list[set[int]], writes: list[set[int]], inputs: int, after: Mapping[int, list[int]]
) -> list[int]:
    """Levels of the dependence graph: steps of one level are independent of each other.

    A step that reads only program inputs waits until just before its first reader (its result would
    only lie about); all others run as soon as they can. `after[step]`: steps that must have run
    before it, none of which needs a step with such an entry.
    """
    sources, waits = _dependences(reads, writes, inputs)
    held = set(after)
    for step, needed in enumerate(sources):
        if not held.isdisjoint(needed):
            held.add(step)
    for step, first in after.items():
        sources[step] = sources[step].union(first)
    level = [0] * len(sources)
    readers: dict[int, list[int]] = {}
    for step in sorted(range(len(sources)), key=held.__contains__):
        level[step] = 1 + max((level[source] for source in sources[step]), default=-1)
        for source in sources[step]:
            readers.setdefault(source, []).append(step)
    for step in reversed(range(len(level))):
        if step in readers and waits[step]:
            level[step] = min(level[reader] for reader in readers[step]) - 1
    return level


def _regions(levels: list[int]) -> list[list[int]]:
    """The steps of each level; a level without steps is left out."""
    regions: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for step, number in enumerate(levels):
        regions[number].append(step)
    return [region for region in regions if region]


def _dependences(
    reads: list[set[int]], writes: list[set[int]], inputs: int
) -> tuple[list[set[int]], list[bool]]:
    """For each step: the steps that it reads from; does it read program inputs only?"""
    writer: dict[int, int] = {}
    sources: list[set[int]] = []
    waits: list[bool] = []
    for step, (read, write) in enumerate(zip(reads, writes, strict=True)):
        sources.append({writer[buffer] for buffer in read if buffer in writer})
        waits.append(not sources[-1] and all(buffer < inputs for buffer in read))
        for buffer in write:
            writer[buffer] = step
    return sources, waits


def _lifetimes(
    regions: list[list[int]], reads: list[set[int]], writes: list[set[int]]
) -> dict[int, tuple[int, int]]:
    """buffer -> (first region, last region) that touches it."""
    life: dict[int, tuple[int, int]] = {}
    for region, members in enumerate(regions):
        for step in members:
            for buffer in reads[step] | writes[step]:
                first, _ = life.get(buffer, (region, region))
                life[buffer] = (first, region)
    return life
