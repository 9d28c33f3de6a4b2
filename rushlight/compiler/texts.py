"""The state of a compilation as text, pass by pass: for DEBUG=5, DUMP and explain.

In: a Compilation and the kind of a pass. Out: {"": text} for what is one thing (the graph, the
points, the groups, the plan), {"k12": text, ...} for what each kernel has of its own. Graphs and
tile programs are in the forms that ir/text and tile/text read back.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler.compilation import Compilation
from rushlight.compiler.graph.concrete import concretize
from rushlight.compiler.step import HostStep, Step
from rushlight.compiler.target import HostCall, Plan
from rushlight.compiler.tile.text import to_text as program_text
from rushlight.ir.node import topological
from rushlight.ir.text import node_text
from rushlight.ir.text import to_text as graph_text


def state_text(state: Compilation, kind: str) -> dict[str, str]:
    """What passes of this kind made ("code" has no text here: it is the backend's)."""
    show = _SHOW.get(kind)
    return {} if show is None else show(state)


def _graph(state: Compilation) -> dict[str, str]:
    # Scalar inputs are shown by the numbers that they had, so that the text can be run.
    new = concretize(state.roots, lambda size: size, state.graph.numbers)
    return {"": graph_text([new[root] for root in state.roots])}


def _points(state: Compilation) -> dict[str, str]:
    points = state.require_points()
    lines = []
    for node in topological(state.roots):
        if not node.leaf:
            why = f"kept: {points.reasons[node]}" if node in points else "computed where it is read"
            lines.append(f"{node_text(node)}    # {why}")
    return {"": "\n".join(lines) + "\n"}


def _groups(state: Compilation) -> dict[str, str]:
    lines = []
    for group in state.groups:
        shape = ", ".join(str(size) for size in group.shape)
        reduced = f" reduced {list(group.reduced)}" if group.reduced else ""
        lines.append(f"{state.kernel_name(group)} {group.kind} [{shape}]{reduced}")
        for member in group.members:
            at = ", ".join(str(place) for place in group.at.get(member, ()))
            lines.append(f"    {node_text(member)} at [{at}]")
    return {"": "\n".join(lines) + "\n"}


def _tiles(state: Compilation) -> dict[str, str]:
    return {state.kernel_name(step.group): step_text(step) for step in state.steps}


def step_text(step: Step) -> str:
    if isinstance(step, HostStep):
        return f"host {node_text(step.node)}\n"
    return program_text(step.program)


def _plan(state: Compilation) -> dict[str, str]:
    assert state.plan is not None
    kernels, order = state.plan.kernels, state.plan.order
    return {"": plan_text(state.plan, [kernels[step].name for step in order])}


def plan_text(plan: Plan, names: list[str]) -> str:
    """`names`: of the calls, in the order in which they run."""
    lines = [
        f"buffer {number}: {spec.dtype.name}[{spec.size}] {spec.kind}"
        for number, spec in enumerate(plan.buffers)
    ]
    waiting = iter(names)
    for number, region in enumerate(plan.regions):
        lines.append(f"region {number}")
        for call in region:
            if isinstance(call, HostCall):
                given = f"{list(call.inputs)} -> {list(call.outputs)}"
            else:
                ints = ", ".join(str(value) for value in call.ints)
                given = f"buffers {list(call.buffers)} ints [{ints}] numbers {list(call.scalars)}"
            lines.append(f"    {next(waiting)} {call.label} {given}")
    for result, source in sorted(plan.reuse.items()):
        lines.append(f"buffer {result} takes over the memory of buffer {source}")
    return "\n".join(lines) + "\n"


_SHOW: dict[str, Callable[[Compilation], dict[str, str]]] = {
    "graph": _graph,
    "points": _points,
    "groups": _groups,
    "tiles": _tiles,
    "plan": _plan,
}
