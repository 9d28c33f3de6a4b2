"""THE TABLE OF CONTENTS of the compiler: from a recorded graph to a plan of kernels.

`PASSES` below is the ordered list; each pass makes a new `Compilation`. A trace
(compiler/decisions.py) sees the state before and after each pass, which is how DEBUG, DUMP and
CHECK=2 work; with `verify` (CHECK=1) what a pass made is checked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from rushlight.compiler.checks import Checks
from rushlight.compiler.compilation import Compilation, Sites
from rushlight.compiler.decisions import SILENT, Choice, Decision, Trace
from rushlight.compiler.describe import describe_kernels
from rushlight.compiler.fuse.grouping import group_points
from rushlight.compiler.fuse.materialize import choose_points, is_in_pieces
from rushlight.compiler.given import Builder, Graph
from rushlight.compiler.graph.check_first import check_first
from rushlight.compiler.graph.complex_to_real import complex_to_real, is_complex_graph
from rushlight.compiler.graph.decompose import decompose
from rushlight.compiler.graph.split_running_sums import split_running_sums
from rushlight.compiler.graph.transpose_dots import transpose_dots
from rushlight.compiler.graph.unroll_reductions import unroll_reductions
from rushlight.compiler.graph.verify import verify_graph
from rushlight.compiler.lower.decompose_math import expand
from rushlight.compiler.plan import assemble
from rushlight.compiler.step import HostStep, Step
from rushlight.compiler.steps import make_steps
from rushlight.compiler.target import Plan
from rushlight.compiler.tile.ir import Program
from rushlight.compiler.tile.verify import verify_program
from rushlight.ir.node import Node, make_node, topological
from rushlight.ir.passes import Pass, Pipeline
from rushlight.ops import cast

__all__ = ["PASSES", "compile_graph", "separate_roots"]


def compile_graph(
    graph: Graph, build: Builder, trace: Trace = SILENT, verify: bool = False, first: int = 0
) -> Plan:
    """All passes, in order. `first`: the number of the first kernel, for its name."""
    state = Compilation(graph, build, trace, first, list(graph.roots))
    trace.before(state)
    state = PIPELINE.run(state, verify=verify, after=None if trace is SILENT else trace.after)
    assert state.plan is not None
    return state.plan


def _decompose(state: Compilation) -> Compilation:
    came_from: dict[Node, Node] = {}
    return replace(state, roots=decompose(state.roots, came_from, state.trace), came_from=came_from)


def _complex_to_real(state: Compilation) -> Compilation:
    if not is_complex_graph(state.roots):
        return state
    came_from: dict[Node, Node] = {}
    graph = state.graph
    roots, moved = complex_to_real(state.roots, graph.inputs, came_from, state.trace)
    traced = {new: state.recorded(old) for new, old in came_from.items()}
    inputs = tuple(moved[leaf] for leaf in graph.inputs)
    graph = replace(graph, inputs=inputs, donated=frozenset(moved[n] for n in graph.donated))
    return replace(state, graph=graph, roots=roots, came_from=traced | state.came_from)


def _rewriting(rewrite: Callable[..., list[Node]]) -> Callable[[Compilation], Compilation]:
    """The pass that a function (roots, came_from, trace) -> roots makes."""

    def run(state: Compilation) -> Compilation:
        came_from: dict[Node, Node] = {}
        roots = rewrite(state.roots, came_from, state.trace)
        traced = {new: state.recorded(old) for new, old in came_from.items()}
        return replace(state, roots=roots, came_from=traced | state.came_from)

    return run


def _split_running_sums(state: Compilation) -> Compilation:
    return _rewriting(partial(split_running_sums, state.graph.one_pass_rows))(state)


def _separate_roots(state: Compilation) -> Compilation:
    roots = separate_roots(state.roots)
    copies = {
        new: state.recorded(old) for old, new in zip(state.roots, roots, strict=True) if new != old
    }
    return replace(state, roots=roots, came_from=copies | state.came_from)


def _check_first(state: Compilation) -> Compilation:
    def is_update(node: Node) -> bool:
        return node.op is not None and (node.op.kind == "scatter" or is_in_pieces(node))

    roots, came_from, checks = check_first(state.roots, state.graph.donated, is_update, state.trace)
    traced = {new: state.recorded(old) for new, old in came_from.items()}
    traced |= {index: state.recorded(owner) for index, owner in checks.items()}
    return replace(state, roots=roots, checks=checks, came_from=traced | state.came_from)


def _choose_points(state: Compilation) -> Compilation:
    points = choose_points(state.roots, state.graph.hints, state.checks)
    state = replace(state, points=points)
    if state.trace is not SILENT:
        for node in topological(state.roots):
            if not node.leaf:
                state.trace.choose(Choice("point", _why_kept(node, state), node))
    return state


def _why_kept(node: Node, state: Compilation) -> Decision:
    points = state.require_points()
    if node in points:
        return Decision("yes", (points.reasons[node],))
    return Decision("no", ("cheap_to_repeat" if len(points.users[node]) > 1 else "one_reader",))


def _group_points(state: Compilation) -> Compilation:
    graph = state.graph
    groups = group_points(state.require_points(), graph.hints, state.trace, graph.most_buffers)
    return replace(state, groups=groups)


def _build_kernels(state: Compilation) -> Compilation:
    state = replace(state, sites=Sites())
    kernels = make_steps(state)
    return replace(state, kernels=kernels, steps=kernels)


def _expand_math(state: Compilation) -> Compilation:
    expanded: dict[Program, Program] = {}  # equal kernels share one program
    steps: list[Step] = []
    for step in state.kernels:
        if not isinstance(step, HostStep):
            if step.program not in expanded:
                expanded[step.program] = expand(step.program)
            step = replace(step, program=expanded[step.program])
        steps.append(step)
    return replace(state, steps=steps)


def _build(state: Compilation) -> Compilation:
    programs = [None if isinstance(s, HostStep) else s.program for s in state.steps]
    built = iter(state.build([p for p in programs if p is not None]))
    return replace(state, executables=[None if p is None else next(built) for p in programs])


def _assemble(state: Compilation) -> Compilation:
    graph = state.graph
    checked = [state.checks.get(node, node) for node in state.sites.nodes()]
    texts = ("", *(graph.site_text(state.recorded(node)) for node in checked))
    plan = assemble(
        state.steps, state.executables, graph.inputs, state.roots, graph.donated,
        graph.variables, texts,
    )  # fmt: skip
    plan.kernels = describe_kernels(state)
    # For the message of a check that fails.
    checks = Checks.of(checked, graph.inputs)
    plan.checks = lambda: checks
    plan.checked_at = tuple(graph.place.get(state.recorded(node)) for node in checked)
    return replace(state, plan=plan)


def _verify_graph(state: Compilation) -> None:
    verify_graph(state.roots, state.graph.hints)


def _verify_real(state: Compilation) -> None:
    _verify_graph(state)
    if is_complex_graph(state.roots):
        raise ValueError("a complex node is left")


def _verify_kernels(state: Compilation) -> None:
    _verify_programs(state.kernels, expanded=False)


def _verify_steps(state: Compilation) -> None:
    _verify_programs(state.steps, expanded=True)


def _verify_programs(steps: Sequence[Step], expanded: bool) -> None:
    for step in steps:
        if not isinstance(step, HostStep):
            verify_program(step.program, expanded)


PASSES: tuple[Pass[Compilation], ...] = (
    # composite nodes -> primitive nodes (simplify removes idle movement on the way)
    Pass("decompose", _decompose, "graph", ensures={"primitive"}, verify=_verify_graph),
    # complex nodes -> pairs of real nodes over interleaved memory
    Pass("complex_to_real", _complex_to_real, "graph",
         requires={"primitive"}, ensures={"real"}, verify=_verify_real),
    # running sums of few rows, or where a scan has no chunks -> scans of chunks and of their sums
    Pass("split_running_sums", _split_running_sums, "graph", verify=_verify_graph),
    # a product that is read transposed is computed transposed
    Pass("transpose_dots", _rewriting(transpose_dots), "graph", verify=_verify_graph),
    # a reduction of a few elements is written out
    Pass("unroll_reductions", _rewriting(unroll_reductions), "graph", verify=_verify_graph),
    # every root is a value of its own, not an input and not another root
    Pass("separate_roots", _separate_roots, "graph", ensures={"own_roots"}, verify=_verify_graph),
    # indices are checked before memory that holds a value is overwritten
    Pass("check_first", _check_first, "graph", requires={"own_roots"}, verify=_verify_graph),
    # which values are kept, which are computed again where they are used
    Pass("choose_points", _choose_points, "points",
         requires={"primitive", "real", "own_roots"}, ensures={"points"}),
    # which points share a kernel
    Pass("group_points", _group_points, "groups", requires={"points"}, ensures={"groups"}),
    # group -> tile program
    Pass("build_kernels", _build_kernels, "tiles",
         requires={"groups"}, ensures={"tiles"}, verify=_verify_kernels),
    # math functions -> basic operations
    Pass("expand_math", _expand_math, "tiles",
         requires={"tiles"}, ensures={"basic"}, verify=_verify_steps),
    # tile programs -> executables (by the backend; equal programs are built once)
    Pass("build", _build, "code", requires={"basic"}, ensures={"executables"}),
    # numbered buffers, regions, memory taken over in place
    Pass("assemble", _assemble, "plan", requires={"executables"}, ensures={"plan"}),
)  # fmt: skip

PIPELINE = Pipeline("compile", PASSES)


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
