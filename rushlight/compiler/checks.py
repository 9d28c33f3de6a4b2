"""What a plan keeps of its index checks, to say which value was wrong when one fails.

In: the checked nodes of a compilation and its inputs. Out: `Checks`, which gives for a check the
shape that was indexed and the index nodes, over leaves whose values a run has. As plain data
(`record`) they go to disk with the plan; read back, they are parsed when a check fails, not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.compiler.given import NumberSlot
from rushlight.compiler.graph.check_first import FIRST_INDEX
from rushlight.ir.node import Node, buffer_node, topological, with_sources
from rushlight.ir.size_text import parse_size
from rushlight.ir.symint import Var
from rushlight.ir.text import parse_graph, to_text

MOST_NODES = 2000  # an index that takes more to compute is not kept on disk


@dataclass(frozen=True, eq=False)
class Check:
    """shape: of what is indexed; indices: one per leading dimension."""

    shape: tuple[Any, ...]
    indices: tuple[Node, ...]


@dataclass(eq=False)
class Checks:
    """checks by site number - 1; `leaves`: leaf -> number of a program input; `slots`: leaf that
    stands for a number -> its slot (where numbers are scalar leaves it is empty)."""

    checks: list[Check]
    leaves: dict[Node, int]
    slots: dict[Node, int] = field(default_factory=dict)

    @staticmethod
    def of(checked: Sequence[Node], inputs: Sequence[Node]) -> Checks:
        found = []
        for node in checked:
            assert node.op is not None
            found.append(Check(node.src[0].shape, node.src[FIRST_INDEX[node.op.kind] :]))
        return Checks(found, {leaf: number for number, leaf in enumerate(inputs)})

    def record(self) -> dict[str, Any] | None:
        """As JSON-able data; None when there is nothing, or too much, to keep."""
        indices = [index for check in self.checks for index in check.indices]
        order = topological(indices)
        if not indices or len(order) > MOST_NODES:
            return None
        new, inputs, slots = _without_numbers(order, self.leaves)
        return {
            "shapes": [[str(size) for size in check.shape] for check in self.checks],
            "counts": [len(check.indices) for check in self.checks],
            "inputs": inputs,
            "slots": slots,
            "graph": to_text([*new[0], *[new[1][index] for index in indices]]),
        }


def _without_numbers(order: Sequence[Node], leaves: Mapping[Node, int]) -> tuple[Any, list, list]:
    """((new leaves, old node -> new node), input numbers, slots): all leaves become buffers."""
    new: dict[Node, Node] = {}
    inputs, slots = [], []
    for node in order:
        if node.leaf == "buffer":
            new[node] = buffer_node(None, node.shape, node.dtype)
            inputs.append((new[node], leaves[node]))
        elif node.leaf == "scalar" and isinstance(node.attrs[0], NumberSlot):
            new[node] = buffer_node(None, (), node.dtype)
            slots.append((new[node], node.attrs[0].index))
        else:
            new[node] = with_sources(node, tuple(new[source] for source in node.src))
    first = [node for node, _ in (*inputs, *slots)]
    return (first, new), [number for _, number in inputs], [slot for _, slot in slots]


def read_checks(record: Mapping[str, Any], sizes: Mapping[str, Var]) -> Checks:
    """What `Checks.record` wrote. `sizes`: the plan's variables by name."""
    roots = iter(parse_graph(record["graph"]))
    leaves = {next(roots): number for number in record["inputs"]}
    slots = {next(roots): slot for slot in record["slots"]}
    checks = [
        Check(
            tuple(parse_size(size, sizes) for size in shape),
            tuple(next(roots) for _ in range(count)),
        )
        for shape, count in zip(record["shapes"], record["counts"], strict=True)
    ]
    return Checks(checks, leaves, slots)
