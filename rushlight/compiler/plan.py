"""Kernels -> plan: numbered buffers, regions of independent calls, memory taken over in place.

Buffers are numbered inputs first, then results (one per root, in order), then temps. A region holds
the steps of one level of the dependence graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from rushlight.compiler.fuse.group import Group
from rushlight.compiler.target import BufferSpec, Executable, HostCall, KernelCall, Plan
from rushlight.compiler.tile.kernel import Kernel
from rushlight.compiler.tile.transform import grid_roots
from rushlight.ir import scalar
from rushlight.ir.node import Node
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import substitute


@dataclass(eq=False)
class HostStep:
    """A group that runs on the host: a numpy function of whole arrays. `at`: see HostCall."""

    group: Group
    node: Node
    inputs: tuple[Node, ...]
    fn: Callable[..., None]
    at: int | None = None


Step = Kernel | HostStep


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
    may_fail = [i for i, step in enumerate(steps) if _may_fail(step)] if must_wait else []
    regions = _regions(reads, writes, len(inputs), dict.fromkeys(must_wait, may_fail))
    reuse = _take_over(steps, regions, reads, roots, donated, table)
    plan = Plan(
        tuple(table.specs),
        tuple(tuple(calls[i] for i in region) for region in regions),
        variables,
        sites,
    )
    # The step of each call, in the order in which the calls run.
    plan.meta["order"] = tuple(step for region in regions for step in region)
    plan.meta["reuse"] = reuse
    plan.meta["lifetimes"] = _lifetimes(regions, reads, writes)
    return plan


def _call(step: Step, executable: Executable | None, table: _Table) -> KernelCall | HostCall:
    if isinstance(step, HostStep):
        ids = tuple(table.number[node] for node in step.inputs)
        out = _number_of(step.node, table)
        shapes = (*(node.shape for node in step.inputs), step.node.shape)
        return HostCall(step.fn, ids, (out,), shapes, step.node.name, step.at)
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


def _regions(
    reads: list[set[int]], writes: list[set[int]], inputs: int, after: Mapping[int, list[int]]
) -> list[list[int]]:
    """Levels of the dependence graph: everything in a region is independent of the rest of it.

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
    regions: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for step, number in enumerate(level):
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


def _take_over(
    steps: Sequence[Step],
    regions: list[list[int]],
    reads: list[set[int]],
    roots: Sequence[Node],
    donated: frozenset[Node],
    table: _Table,
) -> dict[int, int]:
    """result number -> input number whose memory it gets.

    Forced by a kernel that updates in place; otherwise when the result's kernel is the last reader
    of a donated input, reads it only at the element it writes, nobody else in its region reads it,
    and no run can end in that region or later: one that fails must not have changed it.
    """
    region_of = {step: r for r, region in enumerate(regions) for step in region}
    last_check = max((region_of[i] for i, s in enumerate(steps) if _may_fail(s)), default=-1)
    taken = {
        table.number[result]: table.number[source]
        for step in steps
        if isinstance(step, Kernel)
        for result, source in step.inplace
    }
    results = {table.number[root]: root for root in roots}
    for number, step in enumerate(steps):
        if region_of[number] <= last_check or not _may_take(step):
            continue
        for result in (n for n in step.nodes if n is not None and table.number[n] in results):
            if table.number[result] in taken:
                continue
            for source in step.nodes:
                if source not in donated or table.number[source] in taken.values():
                    continue
                if not _fits_in_place(step, source, result):
                    continue
                if _is_last_reader(number, table.number[source], reads, region_of):
                    taken[table.number[result]] = table.number[source]
                    break
    return taken


def _may_take(step: Step) -> TypeGuard[Kernel]:
    return isinstance(step, Kernel) and step.group.kind == "map" and not step.inplace


def _is_last_reader(
    step: int, buffer: int, reads: list[set[int]], region_of: Mapping[int, int]
) -> bool:
    """Nobody else reads the buffer in the region of the step or later."""
    region = region_of[step]
    return not any(
        buffer in read and other != step and region_of[other] >= region
        for other, read in enumerate(reads)
    )


def _fits_in_place(step: Kernel, source: Node, result: Node) -> bool:
    """The result has the source's size, and each element needs only its own of the source."""
    same_count = source.numel() == result.numel()
    same_size = source.dtype.itemsize == result.dtype.itemsize
    return same_count and same_size and step.reads_own_element(source, result)


def _may_fail(step: Step) -> bool:
    """A run may end here: an index is checked, or the host may refuse."""
    if isinstance(step, HostStep):
        return True
    roots = [root for grid in step.program.grids for root in grid_roots(grid)]
    return any(e.op == "check_index" for e in scalar.topological(roots))


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
