"""Rules applied to one node, until none fits.

In: a node whose sources are finished, and rules. Out: the node or what took its place. Always true:
the replacement has the same shape and dtype; rules that never end are an error that names them.
The passes walk the graph (sources first) and ask for each node.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.ir.node import Node
from rushlight.ir.pattern import Rule
from rushlight.ir.text import node_text

# Applications in a row on one node before the rules are said to go round in circles.
LIMIT = 200

Told = Callable[[Rule, Node, Node], None]


class RewriteError(ValueError):
    """A rule gave a node of another shape or dtype, or rules undo each other for ever."""


class Rules:
    """Named rules, found by the op at their root; of several that fit the first one is taken."""

    def __init__(self, *rules: Rule) -> None:
        self._by_op: dict[str, list[Rule]] = {}
        self._of_any: list[Rule] = []
        names: set[str] = set()
        for rule in rules:
            if not rule.name or rule.name in names:
                raise ValueError(f"rule {rule.name!r} ({rule.defined_at}): names must be unique")
            names.add(rule.name)
        ops = {op for rule in rules for op in rule.pattern.root_ops or ()}
        self._of_any = [rule for rule in rules if rule.pattern.root_ops is None]
        for op in ops:
            # A rule for any root takes its turn in every list.
            self._by_op[op] = [r for r in rules if op in (r.pattern.root_ops or (op,))]

    def apply(self, node: Node, told: Told | None = None) -> Node:
        """What stands for the node in the end. told(rule, before, after): of each application."""
        seen: list[str] = []
        while len(seen) < LIMIT:
            found = self._first_fit(node)
            if found is None:
                return node
            rule, after = found
            if after.shape != node.shape or after.dtype is not node.dtype:
                raise RewriteError(
                    f"rule {rule.name} ({rule.defined_at}) turns {node_text(node)} into "
                    f"{node_text(after)}: another shape or dtype"
                )
            if told is not None:
                told(rule, node, after)
            seen.append(rule.name)
            node = after
        last = ", ".join(dict.fromkeys(seen[-8:]))
        raise RewriteError(f"rules go round in circles at {node_text(node)}: {last}")

    def _first_fit(self, node: Node) -> tuple[Rule, Node] | None:
        name = node.op.name if node.op is not None else ""
        for rule in self._by_op.get(name, self._of_any):
            result = rule.apply(node)
            if result is not None:
                return rule, result
        return None
