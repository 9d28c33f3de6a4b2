"""A step of a plan: a kernel, or a function that the host runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rushlight.compiler.fuse.group import Group
from rushlight.compiler.tile.kernel import Kernel
from rushlight.compiler.tile.transform import grid_roots
from rushlight.ir import scalar
from rushlight.ir.node import Node


@dataclass(eq=False)
class HostStep:
    """A group that runs on the host: a numpy function of whole arrays. `at`: see HostCall."""

    group: Group
    node: Node
    inputs: tuple[Node, ...]
    fn: Callable[..., None]
    at: int | None = None


Step = Kernel | HostStep


def may_fail(step: Step) -> bool:
    """A run may end here: an index is checked, or the host may refuse."""
    if isinstance(step, HostStep):
        return True
    roots = [root for grid in step.program.grids for root in grid_roots(grid)]
    return any(e.op == "check_index" for e in scalar.topological(roots))
