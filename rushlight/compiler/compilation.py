"""The state that passes make of what a compilation is given (given.py).

In: a `Graph` of the engine. Out: `Compilation`, whose fields the passes fill one after another.
Always true: a pass gives a new state, in which it replaced fields; the old one stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.compiler.decisions import SILENT, Trace
from rushlight.compiler.fuse.group import Group
from rushlight.compiler.fuse.materialize import Points
from rushlight.compiler.given import Builder, Graph
from rushlight.compiler.step import Step
from rushlight.compiler.target import Executable, Plan
from rushlight.ir.node import Node


class Sites:
    """Numbers of index checks, from 1; one per gather or scatter node."""

    def __init__(self) -> None:
        self._numbers: dict[Node, int] = {}

    def __call__(self, node: Node) -> int:
        return self._numbers.setdefault(node, len(self._numbers) + 1)

    def nodes(self) -> list[Node]:
        """In the order of their numbers."""
        return list(self._numbers)


@dataclass(frozen=True, eq=False)
class Compilation:
    """The state of a compilation.

    roots      the graph, decomposed by and by
    came_from  node of the decomposed graph -> the recorded node that it is part of
    checks     index that is checked before an update in place -> the node that needs it
    kernels    tile programs as built, one per group, with math functions
    steps      the same with basic operations only
    first      the number of the first kernel: step i is called k{first + i}
    """

    graph: Graph
    build: Builder
    trace: Trace = SILENT
    first: int = 0
    roots: list[Node] = field(default_factory=list)
    came_from: dict[Node, Node] = field(default_factory=dict)
    checks: dict[Node, Node] = field(default_factory=dict)
    points: Points | None = None
    groups: list[Group] = field(default_factory=list)
    sites: Sites = field(default_factory=Sites)
    kernels: list[Step] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    executables: list[Executable | None] = field(default_factory=list)
    plan: Plan | None = None

    def recorded(self, node: Node) -> Node:
        """The node of the given graph that `node` is, or is part of."""
        return self.came_from.get(node, node)

    def lines_of(self, node: Node) -> tuple[str, ...]:
        return self.graph.lines_of(self.recorded(node))

    def kernel_name(self, group: Group) -> str:
        """k12; groups have their final order after the pass group_points."""
        return f"k{self.first + self.groups.index(group)}"

    def require_points(self) -> Points:
        assert self.points is not None, "the pass choose_points has not run"
        return self.points
