"""A step of a plan: a kernel, or a function that the host runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from rushlight.compiler.fuse.group import Group
from rushlight.compiler.tile.kernel import Kernel
from rushlight.compiler.tile.transform import grid_roots
from rushlight.ir import scalar
from rushlight.ir.interpret import arguments
from rushlight.ir.node import Node
from rushlight.ir.opdef import OpDef


@dataclass(eq=False)
class HostStep:
    """A group that runs on the host: a numpy function of whole arrays. `at`: see HostCall."""

    group: Group
    node: Node
    inputs: tuple[Node, ...]
    fn: Callable[..., None]
    at: int | None = None


Step = Kernel | HostStep


def host_function(record: OpDef, attrs: tuple) -> Callable[..., None]:
    """fn(inputs, outputs) over arrays, from the record."""
    function = record.host or record.reference
    assert function is not None

    def run(arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        call = SimpleNamespace(src=tuple(arrays), attrs=attrs)
        positional, named = arguments(record, call, lambda array: array)
        outputs[0][...] = function(*positional, **named)

    return run


def may_fail(step: Step) -> bool:
    """A run may end here: an index is checked, or the host may refuse."""
    if isinstance(step, HostStep):
        return True
    roots = [root for grid in step.program.grids for root in grid_roots(grid)]
    return any(e.op == "check_index" for e in scalar.topological(roots))
