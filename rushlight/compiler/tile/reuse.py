"""Groups that compute the same share one program, as the layers of a network do.

In: a group. Out: its `Form` (what it computes, with nodes as numbers), or None for a group whose
program holds more than its form says. Two groups of one plan with equal keys have equal programs;
only the nodes and the number slots behind the program's parameters differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rushlight.compiler.fuse.group import Group
from rushlight.compiler.tile.kernel import Kernel
from rushlight.ir.node import Node, topological

# Index checks have numbers of their own, so these are built each time.
CHECKED = frozenset({"gather_nd", "scatter_nd"})


@dataclass(frozen=True, eq=False)
class Form:
    """`nodes` and `slots` (of numbers) in the order in which the key counts them."""

    key: tuple
    nodes: list[Node]
    slots: list[int]

    def kernel_like(self, kernel: Kernel, form: Form, group: Group) -> Kernel:
        """The kernel of this form's group, made from that of a group with an equal form."""
        number = {node: i for i, node in enumerate(form.nodes)}
        nodes = tuple(None if n is None else self.nodes[number[n]] for n in kernel.nodes)
        slots = tuple(self.slots[form.slots.index(slot)] for slot in kernel.slots)
        return Kernel(group, kernel.program, nodes, slots, kernel.ints)


def form_of(
    group: Group, outputs: frozenset[Node], is_point: Callable[[Node], bool]
) -> Form | None:
    """`outputs`: members that are stored to memory."""

    def outside(node: Node) -> bool:
        return bool(node.leaf) or (is_point(node) and node not in group.at)

    nodes = topological(list(group.members), outside)
    number = {node: i for i, node in enumerate(nodes)}
    slots: dict[int, int] = {}
    parts: list[tuple] = []
    for node in nodes:
        if node.leaf == "const":
            parts.append(("const", repr(node.attrs[0]), node.dtype))
        elif node.leaf == "scalar":
            slot = slots.setdefault(node.attrs[0].index, len(slots))
            parts.append(("scalar", slot, node.dtype))
        elif outside(node):
            parts.append(("read", node.dtype, node.shape))
        elif node.name in CHECKED:
            return None
        else:
            src = tuple([number[s] for s in node.src])
            place = (group.at.get(node), node in outputs)
            parts.append((node.name, src, node.attrs, node.shape, node.dtype, place))
    members = tuple([number[member] for member in group.members])
    key = (group.kind, group.shape, group.reduced, members, tuple(parts))
    return Form(key, nodes, list(slots))
