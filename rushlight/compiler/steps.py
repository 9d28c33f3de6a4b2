"""Groups -> steps: a kernel or a host function each, with what every kernel has to know.

In: a Compilation with points and groups. Out: one `Kernel` (a tile program as built) or `HostStep`
per group, in order.
"""

from __future__ import annotations

from rushlight.compiler.compilation import Compilation
from rushlight.compiler.fuse.group import Group
from rushlight.compiler.fuse.materialize import Points
from rushlight.compiler.graph.check_first import may_fail
from rushlight.compiler.host_calls import host_function
from rushlight.compiler.step import HostStep, Step
from rushlight.compiler.tile.build import BuildContext, build_kernel
from rushlight.ir.node import Node, topological


def make_steps(state: Compilation) -> list[Step]:
    points, groups = state.require_points(), state.groups
    last_reader = _last_readers(points, groups)
    donated = state.graph.donated

    failing = _failing(points, groups) if donated else 0

    def donatable(group: Group) -> frozenset[Node]:
        if any(failing >> g.number & 1 and g.before >> group.number & 1 for g in groups):
            return frozenset()  # a run that fails later must not have changed the memory
        return frozenset(n for n in donated if last_reader.get(n) == {group.number})

    outputs = _outputs(state.roots, points, groups)
    context = BuildContext(points, state.graph.hints, outputs, state.sites, donatable)
    return [
        _host_step(group, state) if group.kind == "host" else build_kernel(group, context)
        for group in groups
    ]


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


def _failing(points: Points, groups: list[Group]) -> int:
    """Bit set of the groups at which a run may end."""
    found = 0
    for group in groups:
        sources = [source for member in group.members for source in member.src]
        inlined = topological(sources, stop=points.__contains__)
        nodes = [node for node in inlined if node not in points]
        if any(map(may_fail, (*group.members, *nodes))):
            found |= 1 << group.number
    return found


def _host_step(group: Group, state: Compilation) -> HostStep:
    (node,) = group.members
    assert node.op is not None
    at = state.graph.place.get(state.recorded(node))
    return HostStep(group, node, node.src, host_function(node.op, node.attrs), at)
