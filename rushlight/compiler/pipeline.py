"""THE TABLE OF CONTENTS of the compiler: from a recorded graph to a plan of kernels.

  decompose        composite nodes -> primitive nodes (simplify removes idle movement on the way)
  separate_roots   every root is a value of its own, not an input and not another root
  choose_points    which values are kept, which are computed again where they are used
  group_points     which points share a kernel
  build_kernel     group -> tile program
  expand           math functions -> basic operations
  verify           the tile program is well formed
  build            tile programs -> executables (by the backend; equal programs are built once)
  assemble         numbered buffers, regions, memory taken over in place
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rushlight.compiler.fuse.group import Group, group_points
from rushlight.compiler.fuse.materialize import Points, choose_points
from rushlight.compiler.graph.decompose import decompose
from rushlight.compiler.lower.decompose_math import expand
from rushlight.compiler.plan import HostStep, Step, assemble
from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import Executable, Plan
from rushlight.compiler.tile.build import BuildContext, build_kernel
from rushlight.compiler.tile.ir import Program
from rushlight.compiler.tile.verify import verify_program
from rushlight.ir.node import Node, make_node, topological
from rushlight.ops import cast

Builder = Callable[[Sequence[Program]], list[Executable]]


@dataclass(frozen=True)
class NumberSlot:
    """What a scalar leaf of a program graph holds: its position in the numbers of a call."""

    index: int


@dataclass(frozen=True, eq=False)
class Graph:
    """What is compiled.

    inputs     buffer leaves, in the order of the pointers
    roots      the values wanted
    donated    inputs whose memory may be overwritten (nobody needs their old value)
    variables  names of the size and offset variables
    hints      a typical value for each
    site_text  what to say when an index check of this node fails
    """

    inputs: tuple[Node, ...]
    roots: tuple[Node, ...]
    donated: frozenset[Node]
    variables: tuple[str, ...]
    hints: Hints
    site_text: Callable[[Node], str]


def compile_graph(graph: Graph, build: Builder) -> Plan:
    """All passes, in order."""
    roots = separate_roots(decompose(graph.roots), graph.inputs)
    points = choose_points(roots, graph.hints)
    groups = group_points(points, graph.hints)
    sites = _Sites(graph.site_text)
    steps = _steps(graph, roots, points, groups, sites)
    executables = _build(steps, build)
    return assemble(
        steps, executables, graph.inputs, roots, graph.donated, graph.variables, sites.texts()
    )


def separate_roots(roots: Sequence[Node], inputs: Sequence[Node]) -> list[Node]:
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


class _Sites:
    """Numbers of index checks, from 1; one per gather or scatter node."""

    def __init__(self, text: Callable[[Node], str]) -> None:
        self._text = text
        self._numbers: dict[Node, int] = {}

    def __call__(self, node: Node) -> int:
        return self._numbers.setdefault(node, len(self._numbers) + 1)

    def texts(self) -> tuple[str, ...]:
        return ("", *(self._text(node) for node in self._numbers))


def _steps(
    graph: Graph, roots: list[Node], points: Points, groups: list[Group], sites: _Sites
) -> list[Step]:
    outputs = _outputs(roots, points, groups)
    last_reader = _last_readers(points, groups)

    def donatable(group: Group) -> frozenset[Node]:
        return frozenset(n for n in graph.donated if last_reader.get(n) == {group.number})

    context = BuildContext(points, graph.hints, outputs, sites, donatable)
    steps: list[Step] = []
    for group in groups:
        if group.kind == "host":
            steps.append(_host_step(group, points))
        else:
            kernel = build_kernel(group, context)
            program = expand(kernel.program)
            verify_program(program)
            steps.append(replace(kernel, program=program))
    return steps


def _outputs(roots: list[Node], points: Points, groups: list[Group]) -> frozenset[Node]:
    """Members that somebody outside their group reads."""
    group_of = {member: group for group in groups for member in group.members}
    wanted = set(roots)
    for node in points.points:
        if any(group_of[user] is not group_of[node] for user in points.users[node]):
            wanted.add(node)
    return frozenset(wanted)


def _last_readers(points: Points, groups: list[Group]) -> dict[Node, set[int]]:
    """Input leaf -> numbers of the groups that read it."""
    group_of = {member: group for group in groups for member in group.members}
    readers: dict[Node, set[int]] = {}
    for node in points.points:
        for source in topological(list(node.src), stop=points.__contains__):
            if source.leaf == "buffer":
                readers.setdefault(source, set()).add(group_of[node].number)
    return readers


def _host_step(group: Group, points: Points) -> HostStep:
    (node,) = group.members
    record = node.op
    assert record is not None and record.reference is not None
    reference = record.reference
    attrs = dict(zip(record.attr_index, node.attrs, strict=False))

    def run(arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        outputs[0][...] = reference(*arrays, **attrs)

    return HostStep(group, node, node.src, run)


def _build(steps: Sequence[Step], build: Builder) -> list[Executable | None]:
    programs = [None if isinstance(s, HostStep) else s.program for s in steps]
    built = iter(build([p for p in programs if p is not None]))
    return [None if p is None else next(built) for p in programs]


