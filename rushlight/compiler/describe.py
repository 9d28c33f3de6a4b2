"""What a person may want to know of the kernels of a plan, kept with the plan.

In: the state of a compilation whose steps are made. Out: one `KernelInfo` per step, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rushlight.compiler.compilation import Compilation
from rushlight.compiler.cost import Cost, cost_of
from rushlight.compiler.fuse.group import Group
from rushlight.compiler.fuse.materialize import Points
from rushlight.compiler.step import HostStep, Step
from rushlight.compiler.tile.ir import Program
from rushlight.ir.node import Node, topological
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import evaluate


@dataclass(frozen=True, eq=False)
class KernelInfo:
    """name: k12; label: what it does; kind: of its group; shape: of its domain.

    ops      the values it computes, by the names of their ops, in order
    lines    user lines that recorded them ("file:line"), when they were kept
    program  as built, with math functions; None for a host function
    ints     one per program size: an int or an Expr over the plan's variables
    """

    name: str
    label: str
    kind: str
    shape: tuple[int | Expr, ...]
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    program: Program | None = None
    ints: tuple[int | Expr, ...] = ()

    def shape_text(self, env: Mapping[str, int]) -> str:
        return "x".join(str(evaluate(size, env)) for size in self.shape) or "1"

    def cost(self, env: Mapping[str, int]) -> Cost:
        """Bytes moved and operations done with these sizes of the plan."""
        if self.program is None:
            return Cost()
        sizes = {
            var.name: evaluate(value, env)
            for var, value in zip(self.program.sizes, self.ints, strict=True)
        }
        return cost_of(self.program, sizes)


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
