"""THE TABLE OF CONTENTS of the compiler: from a recorded graph to a plan of kernels.

`PASSES` below is the ordered list; each pass fills or replaces fields of the `Compilation`. A
trace (compiler/decisions.py) sees the state before and after each pass, which is how DEBUG, DUMP
and CHECK=2 work; with `verify` (CHECK=1) what a pass made is checked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from rushlight.compiler.compilation import Builder, Compilation, Graph, NumberSlot, Pass
from rushlight.compiler.decisions import SILENT, Choice, Decision, Trace
from rushlight.compiler.describe import describe_kernels
from rushlight.compiler.fuse.group import group_points
from rushlight.compiler.fuse.materialize import choose_points
from rushlight.compiler.graph.decompose import decompose
from rushlight.compiler.graph.verify import verify_graph
from rushlight.compiler.lower.decompose_math import expand
from rushlight.compiler.plan import HostStep, Step, assemble
from rushlight.compiler.steps import make_steps
from rushlight.compiler.target import Plan
from rushlight.compiler.tile.verify import verify_program
from rushlight.ir.node import Node, make_node, topological
from rushlight.ops import cast

__all__ = ["Builder", "Graph", "NumberSlot", "PASSES", "compile_graph", "separate_roots"]


def compile_graph(
    graph: Graph, build: Builder, trace: Trace = SILENT, verify: bool = False, first: int = 0
) -> Plan:
    """All passes, in order. `first`: the number of the first kernel, for its name."""
    state = Compilation(graph, build, trace, first, list(graph.roots))
    trace.before(state)
    for step in PASSES:
        before = copy(state)
        step.run(state)
        if verify and step.verify is not None:
            step.verify(state)
        trace.after(step.name, step.kind, before, state)
    assert state.plan is not None
    return state.plan


def _decompose(state: Compilation) -> None:
    state.roots = decompose(state.roots, state.came_from)


def _separate_roots(state: Compilation) -> None:
    old, state.roots = state.roots, separate_roots(state.roots)
    for before, after in zip(old, state.roots, strict=True):
        state.came_from.setdefault(after, state.recorded(before))


def _choose_points(state: Compilation) -> None:
    state.points = choose_points(state.roots, state.graph.hints)
    if state.trace is not SILENT:
        for node in topological(state.roots):
            if not node.leaf:
                state.trace.choose(Choice("point", _why_kept(node, state), node))


def _why_kept(node: Node, state: Compilation) -> Decision:
    points = state.require_points()
    if node in points:
        return Decision("yes", (points.reasons[node],))
    return Decision("no", ("cheap_to_repeat" if len(points.users[node]) > 1 else "one_reader",))


def _group_points(state: Compilation) -> None:
    state.groups = group_points(state.require_points(), state.graph.hints, state.trace)


def _build_kernels(state: Compilation) -> None:
    state.kernels = make_steps(state)
    state.steps = state.kernels


def _expand_math(state: Compilation) -> None:
    state.steps = [
        step if isinstance(step, HostStep) else replace(step, program=expand(step.program))
        for step in state.kernels
    ]


def _build(state: Compilation) -> None:
    programs = [None if isinstance(s, HostStep) else s.program for s in state.steps]
    built = iter(state.build([p for p in programs if p is not None]))
    state.executables = [None if p is None else next(built) for p in programs]


def _assemble(state: Compilation) -> None:
    graph = state.graph
    checked = state.sites.nodes()
    texts = ("", *(graph.site_text(state.recorded(node)) for node in checked))
    state.plan = assemble(
        state.steps, state.executables, graph.inputs, state.roots, graph.donated,
        graph.variables, texts,
    )  # fmt: skip
    state.plan.meta["kernels"] = describe_kernels(state)
    # For the message of a check that fails.
    state.plan.meta["checked"], state.plan.meta["inputs"] = tuple(checked), graph.inputs


def _verify_graph(state: Compilation) -> None:
    verify_graph(state.roots, state.graph.hints)


def _programs_are_well_formed(steps: Sequence[Step], expanded: bool) -> None:
    for step in steps:
        if not isinstance(step, HostStep):
            verify_program(step.program, expanded)


PASSES: tuple[Pass, ...] = (
    # composite nodes -> primitive nodes (simplify removes idle movement on the way)
    Pass("decompose", "graph", _decompose, _verify_graph),
    # every root is a value of its own, not an input and not another root
    Pass("separate_roots", "graph", _separate_roots, _verify_graph),
    # which values are kept, which are computed again where they are used
    Pass("choose_points", "points", _choose_points),
    # which points share a kernel
    Pass("group_points", "groups", _group_points),
    # group -> tile program
    Pass("build_kernels", "tiles", _build_kernels,
         lambda state: _programs_are_well_formed(state.kernels, expanded=False)),
    # math functions -> basic operations
    Pass("expand_math", "tiles", _expand_math,
         lambda state: _programs_are_well_formed(state.steps, expanded=True)),
    # tile programs -> executables (by the backend; equal programs are built once)
    Pass("build", "code", _build),
    # numbered buffers, regions, memory taken over in place
    Pass("assemble", "plan", _assemble),
)  # fmt: skip


def separate_roots(roots: Sequence[Node]) -> list[Node]:
    """A root that is a leaf or repeats another becomes a copy (an identity cast)."""
    seen: set[Node] = set()
    separate = []
    for root in roots:
        here = root
        if root.leaf or root in seen:
            key = (root.dtype, *([None] * (len(separate) if root in seen else 0)))
            here = make_node(cast, (root,), key, root.shape, root.dtype)
        seen.add(root)
        separate.append(here)
    return separate
