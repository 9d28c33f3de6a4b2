"""The one rewrite driver: rules are applied bottom-up until none applies.

In: roots and rules. Out: new roots in the same order; what no rule touches stays the same object.
Always true: a rule sees a node whose sources are finished; the replacement has the same shape and
dtype; a set of rules that never ends is an error that names the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.ir.node import Node, make_node, topological
from rushlight.ir.pattern import Rule
from rushlight.ir.text import node_text

# Applications in a row on one place before the rules are said to go round in circles.
LIMIT = 200


class RewriteError(ValueError):
    """A rule gave a node of another shape or dtype, or rules undo each other for ever."""


@dataclass(frozen=True)
class Applied:
    """One application of a rule, for the trace."""

    rule: str
    defined_at: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.rule} ({self.defined_at})\n  - {self.before}\n  + {self.after}"


def rewrite(
    roots: Sequence[Node], rules: Sequence[Rule], trace: list[Applied] | None = None
) -> list[Node]:
    """The roots after all rules. `trace` gets every application in order."""
    return _Driver(rules, trace).run(roots)


class _Driver:
    def __init__(self, rules: Sequence[Rule], trace: list[Applied] | None) -> None:
        self.trace = trace
        self.done: dict[Node, Node] = {}
        self.by_op: dict[str, list[Rule]] = {}
        names = {op for rule in rules for op in rule.pattern.root_ops or ()}
        # In the order given; a rule for any root takes its turn in every list.
        for name in (*names, ""):
            self.by_op[name] = [
                rule
                for rule in rules
                if rule.pattern.root_ops is None or name in rule.pattern.root_ops
            ]

    def run(self, roots: Sequence[Node]) -> list[Node]:
        for root in roots:
            self.finish(root, [])
        return [self.done[root] for root in roots]

    def finish(self, root: Node, chain: list[str]) -> Node:
        """The final form of a node. `chain`: rules whose replacement led here."""
        if len(chain) > LIMIT:
            last = ", ".join(dict.fromkeys(chain[-8:]))
            raise RewriteError(f"rules go round in circles at {node_text(root)}: {last}")
        for node in topological([root], stop=self.done.__contains__):
            if node not in self.done:
                self.done[node] = self._finish_one(node, chain)
        return self.done[root]

    def _finish_one(self, node: Node, chain: list[str]) -> Node:
        """The node over finished sources, after rules."""
        node = self._rebuilt(node)
        if node in self.done:
            return self.done[node]
        for rule in self.by_op.get(node.op.name if node.op else "", self.by_op[""]):
            result = rule.apply(node)
            if result is None:
                continue
            self._check(rule, node, result)
            if self.trace is not None:
                applied = Applied(rule.name, rule.defined_at, node_text(node), node_text(result))
                self.trace.append(applied)
            final = self.finish(result, [*chain, rule.name])
            self.done[node] = final
            return final
        return node

    def _rebuilt(self, node: Node) -> Node:
        src = tuple(self.done[source] for source in node.src)
        if node.op is None or all(a is b for a, b in zip(src, node.src, strict=True)):
            return node
        return make_node(node.op, src, node.attrs, node.shape, node.dtype)

    def _check(self, rule: Rule, node: Node, result: Node) -> None:
        if result.shape != node.shape or result.dtype is not node.dtype:
            raise RewriteError(
                f"rule {rule.name} ({rule.defined_at}) turns {node_text(node)} into "
                f"{node_text(result)}: another shape or dtype"
            )
