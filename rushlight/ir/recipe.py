"""How some nodes were made from others, as a list of instructions: to make them again elsewhere.

In: nodes that stand for values (slots) and nodes made from them. Out: `Recipe.run(values)`, the
same nodes over other values of the same shapes and dtypes. No rule runs, no shape is derived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.ir.node import Meta, Node, node_of, topological


class NotPlain(Exception):
    """What was made depends on more than the slots."""


# Makes a number leaf anew, from the values of the slots.
Again = Callable[[Sequence[Node]], Node]


class Recipe:
    """Places count the slots, then `fixed` nodes (constants), then numbers, then steps.

    steps      (meta, places of its sources)
    outputs    places of the nodes that were asked for
    makes_all  is each output made by a step, none given?
    """

    def __init__(
        self, slots: Sequence[Node], made: Sequence[Node], again: Callable[[Node], Again]
    ) -> None:
        """`again(leaf)`: for a number that is no slot; raises NotPlain where it knows no way."""
        self.slots = len(slots)
        place = {node: i for i, node in enumerate(slots)}
        order = topological(list(made), place.__contains__)
        self.fixed: list[Node] = []
        self.numbers: list[Again] = []
        leaves = [node for node in order if node.leaf and node not in place]
        for node in leaves:
            if node.leaf == "const":
                place[node] = len(place)
                self.fixed.append(node)
            elif node.leaf != "scalar":
                raise NotPlain  # memory that is no slot: a program might write over it
        for node in leaves:
            if node not in place:
                self.numbers.append(again(node))
                place[node] = len(place)
        self.steps: list[tuple[Meta, tuple[int, ...]]] = []
        for node in order:
            if node not in place:
                assert node.meta is not None
                self.steps.append((node.meta, tuple([place[source] for source in node.src])))
                place[node] = len(place)
        self.outputs = [place[node] for node in made]
        first = self.slots + len(self.fixed) + len(self.numbers)
        self.makes_all = all(output >= first for output in self.outputs)

    def made(self, values: Sequence[Node]) -> list[Node]:
        """The nodes that were asked for."""
        nodes = self.run(list(values))
        return [nodes[place] for place in self.outputs]

    def meta_of(self, output: int) -> Meta:
        """What the node of an output is besides its sources; it must be a step."""
        first = self.slots + len(self.fixed) + len(self.numbers)
        return self.steps[self.outputs[output] - first][0]

    def number_nodes(self, values: list[Node]) -> list[Node]:
        """The numbers among what `run` gave, in the order of `numbers`."""
        first = self.slots + len(self.fixed)
        return values[first : first + len(self.numbers)]

    def run(self, values: list[Any]) -> list[Node]:
        """The nodes of all places. `values`: one per slot; the list is used up."""
        values += self.fixed
        for again in self.numbers:
            values.append(again(values))
        for meta, sources in self.steps:
            values.append(node_of(meta, tuple([values[i] for i in sources])))
        return values
