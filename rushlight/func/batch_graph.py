"""A graph of one example as a graph of a batch.

The function is recorded once, on leaves without memory that have the shape of one example. Each
node that depends on them is then made for the whole batch by its rule (batch_rules.py); composites
without a rule are taken apart first. What does not depend on an example stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.autograd.graph import composite_graph
from rushlight.func.batch_rules import NoRule, Value, rule_of
from rushlight.ir.node import Node, make_node, topological

# Nodes that draw: with randomness "different" each example has its own numbers.
DRAWS = frozenset("uniform normal random_integers dropout random_bits".split())


class Batch:
    """known: node of one example -> its Value. `since`: nodes that draw and are younger are drawn
    for each example; None: they are the same for all."""

    def __init__(self, size: int, known: dict[Node, Node], since: int | None) -> None:
        self.size, self.since = size, since
        self.known = {node: Value(batched, True) for node, batched in known.items()}

    def values(self, roots: Sequence[Node]) -> list[Value]:
        """The roots on the batch."""
        for node in topological(list(roots), stop=self.known.__contains__):
            if node not in self.known:
                self.known[node] = self._value(node)
        return [self.known[root] for root in roots]

    def _value(self, node: Node) -> Value:
        if node.leaf:
            return Value(node, False)
        sources = [self.known[source] for source in node.src]
        if not any(value.batched for value in sources) and not self._draws(node):
            return self._same(node, sources)
        rule = rule_of(node)
        if rule is not None and not (self._draws(node) and node.name != "random_bits"):
            try:
                return Value(rule(node, sources, self.size), True)
            except NoRule:
                pass
        return self._taken_apart(node, sources)

    def _same(self, node: Node, sources: list[Value]) -> Value:
        src = tuple(value.node for value in sources)
        if src == node.src:
            return Value(node, False)
        return Value(make_node(node.op, src, node.attrs, node.shape, node.dtype), False)  # type: ignore[arg-type]

    def _draws(self, node: Node) -> bool:
        return self.since is not None and node.name in DRAWS and node.serial >= self.since

    def _taken_apart(self, node: Node, sources: list[Value]) -> Value:
        op = node.op
        assert op is not None
        if op.decompose is None:
            raise NoRule(op.name)
        graph = composite_graph(op, node.attrs, [(s.shape, s.dtype) for s in node.src])
        inner = Batch(self.size, {}, -1 if self._draws(node) else self.since)
        inner.known.update(zip(graph.inputs, sources, strict=True))
        (found,) = inner.values([graph.outputs[0]])  # type: ignore[list-item]
        return found
