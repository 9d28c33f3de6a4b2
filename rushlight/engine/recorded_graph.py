"""A recorded graph with its varying sizes as variables: to be read, and to be built again.

In: a recording and its template. Out: the graph as text, and its roots for other sizes, other
sources and other numbers. Nothing is compiled here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.compiler.given import NumberSlot
from rushlight.engine.signature import Recording
from rushlight.engine.symbolic_graph import symbolic_graph
from rushlight.engine.template import Template
from rushlight.ir.node import Node, make_node, scalar_node, topological
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import evaluate
from rushlight.ir.text import to_text


class RecordedGraph:
    """sizes: names of the variables. inputs, numbers: how many sources of each kind it has."""

    def __init__(
        self, recording: Recording, template: Template, site_text: Callable[[Node], str]
    ) -> None:
        self._graph = symbolic_graph(recording, template, frozenset(), site_text)
        self.sizes = self._graph.variables
        self.inputs, self.numbers = len(recording.inputs), len(recording.numbers)

    def text(self) -> str:
        return to_text(self._graph.roots)

    def build(
        self, sizes: Sequence[int], sources: Sequence[Node], numbers: Sequence[Any]
    ) -> list[Node]:
        """The roots over these sources."""
        env = dict(zip(self.sizes, sizes, strict=True))
        new = dict(zip(self._graph.inputs, sources, strict=True))
        for node in topological(list(self._graph.roots)):
            if node not in new:
                new[node] = _concrete(node, new, env, numbers)
        return [new[root] for root in self._graph.roots]


def _concrete(node: Node, new: dict[Node, Node], env: dict, numbers: Sequence[Any]) -> Node:
    """The node with numbers in place of variables and slots."""
    if node.leaf == "scalar":
        slot = node.attrs[0]
        value = numbers[slot.index] if isinstance(slot, NumberSlot) else slot
        return scalar_node(value, node.dtype)
    if node.leaf:
        return node
    assert node.op is not None
    src = tuple(new[source] for source in node.src)
    return make_node(node.op, src, _numbers(node.attrs, env), _numbers(node.shape, env), node.dtype)


def _numbers(value: Any, env: dict) -> Any:
    if isinstance(value, tuple):
        return tuple(_numbers(item, env) for item in value)
    return evaluate(value, env) if isinstance(value, Expr) else value
