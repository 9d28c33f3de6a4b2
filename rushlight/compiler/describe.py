"""What a person may want to know of the kernels of a plan, kept with the plan.

In: the state of a compilation whose steps are made. Out: one `KernelInfo` per step, in order.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler.compilation import Compilation
from rushlight.compiler.fuse.group import Group
from rushlight.compiler.fuse.materialize import Points
from rushlight.compiler.kernel_info import KernelInfo
from rushlight.compiler.step import HostStep, Step
from rushlight.ir.node import Node, topological


def describe_kernels(state: Compilation) -> tuple[KernelInfo, ...]:
    return tuple(
        _describe(step, group, state)
        for step, group in zip(state.kernels, state.groups, strict=True)
    )


def _describe(step: Step, group: Group, state: Compilation) -> KernelInfo:
    computed = nodes_of(group, state.require_points())
    name = state.kernel_name(group)
    ops = tuple(node.name for node in computed)
    lines = lines_of(computed, state.lines_of)
    if isinstance(step, HostStep):
        return KernelInfo(name, f"host_{step.node.name}", group.kind, group.shape, ops, lines)
    return KernelInfo(
        name, step.program.name, group.kind, group.shape, ops, lines, step.program, step.ints
    )


def nodes_of(group: Group, points: Points) -> list[Node]:
    """Members and all that is computed again inside them, sources first."""
    members = set(group.members)
    inside: dict[Node, None] = {}
    for member in group.members:
        cone = topological(
            [member],
            stop=lambda n, member=member: n is not member and (n.leaf != "" or n in points),
        )
        for node in cone:
            if not node.leaf and (node in members or node not in points):
                inside[node] = None
    return list(inside)


def lines_of(nodes: list[Node], find: Callable[[Node], tuple[str, ...]]) -> tuple[str, ...]:
    """User lines of some nodes, each once."""
    return tuple(dict.fromkeys(line for node in nodes for line in find(node)))
