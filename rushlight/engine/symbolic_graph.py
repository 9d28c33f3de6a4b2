"""A recorded graph made again for the compiler: slots for inputs and numbers, variables for sizes.

In: a recording and a template, which says what ints vary. Out: the graph of `compile_graph`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.given import Graph, NumberSlot
from rushlight.compiler.sizes import Hints
from rushlight.engine.origin import lines_of
from rushlight.engine.signature import Recording, attr_kinds
from rushlight.engine.template import Template
from rushlight.ir.node import Node, buffer_node, make_node, scalar_node
from rushlight.ir.symint import Expr


def symbolic_graph(
    recording: Recording,
    template: Template,
    donated: frozenset[int],
    site_text: Callable[[Node], str],
) -> Graph:
    """The recorded graph with slots for inputs and numbers, and variables for varying sizes."""
    values = [recording.ints[p] for p in template.first.tolist()]
    rebuild = _Rebuild(template.sizes(recording.ints))
    new = rebuild.run(recording)
    inputs = tuple(new[node] for node in recording.inputs)
    origin = {new[node]: node for node in recording.order}
    return Graph(
        inputs,
        tuple(new[root] for root in recording.roots),
        frozenset(inputs[i] for i in donated),
        template.names,
        Hints(dict(zip(template.names, values, strict=True))),
        lambda node: site_text(origin.get(node, node)),
        lambda node: lines_of(origin.get(node, node)),
        recording.numbers,
        {new[node]: i for i, node in enumerate(recording.order)},
    )


class _Rebuild:
    """Reads the ints in the order in which `signature.record` wrote them."""

    def __init__(self, ints: list[int | Expr]) -> None:
        self._ints = iter(ints)

    def run(self, recording: Recording) -> dict[Node, Node]:
        new: dict[Node, Node] = {}
        scalars = 0
        for node in recording.order:
            if node.leaf == "buffer":
                new[node] = buffer_node(None, self._sizes(node.shape), node.dtype)
            elif node.leaf == "scalar":
                new[node] = scalar_node(NumberSlot(scalars), node.dtype)
                scalars += 1
            elif node.leaf:
                new[node] = node
            else:
                op = node.op
                assert op is not None
                attrs = tuple(
                    self._attr(kind, value)
                    for kind, value in zip(attr_kinds(op), node.attrs, strict=False)
                )
                src = tuple(new[s] for s in node.src)
                new[node] = make_node(op, src, attrs, self._sizes(node.shape), node.dtype)
        return new

    def _sizes(self, shape: tuple) -> tuple:
        return tuple(next(self._ints) if size > 1 else size for size in shape)

    def _attr(self, kind: str, value: Any) -> Any:
        if not kind or value is None:
            return value
        if kind == "sizes":
            return self._sizes(value)
        if kind == "size":
            return self._sizes((value,))[0]
        if kind == "offset":
            return next(self._ints)
        return tuple(next(self._ints) for _ in value)
