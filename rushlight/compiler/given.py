"""What a compilation is given: the graph of the engine, and who builds its kernels.

Apart from the passes and their state, because a process that finds its plans on disk needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import Executable
from rushlight.compiler.tile.ir import Program
from rushlight.ir.node import Node

Builder = Callable[[Sequence[Program]], list[Executable]]


@dataclass(frozen=True)
class NumberSlot:
    """What a scalar leaf of a program graph holds: its position in the numbers of a call."""

    index: int


def no_lines(node: Node) -> tuple[str, ...]:
    """Where a node was recorded, when nobody kept it."""
    return ()


@dataclass(frozen=True, eq=False)
class Graph:
    """What is compiled.

    inputs     buffer leaves, in the order of the pointers
    roots      the values wanted
    donated    inputs whose memory may be overwritten (nobody needs their old value)
    variables  names of the size and offset variables
    hints      a typical value for each
    site_text  what to say when an index check of this node fails
    lines_of   user lines that recorded a node, as "file:line"
    numbers    typical values of the scalar inputs, by slot, for people and checks
    place      node -> its position in every recording of this program
    most_buffers  of one kernel of the target; 0: any number
    one_pass_rows  rows from which the target has running sums in one pass; 0: it has not
    """

    inputs: tuple[Node, ...]
    roots: tuple[Node, ...]
    donated: frozenset[Node]
    variables: tuple[str, ...]
    hints: Hints
    site_text: Callable[[Node], str]
    lines_of: Callable[[Node], tuple[str, ...]] = no_lines
    numbers: tuple[Any, ...] | None = None
    place: Mapping[Node, int] = field(default_factory=dict)
    most_buffers: int = 0
    one_pass_rows: int = 0
