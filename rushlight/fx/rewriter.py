"""Replacing parts of a traced program that look like a pattern.

In: a GraphModule, a pattern and a replacement (functions, modules or GraphModules). Out: the
matches; the program is changed where they were. Matches do not overlap, and what is inside a match
is read by nothing outside it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.fx.graph import Graph
from rushlight.fx.interpreter import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.trace import symbolic_trace

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """Where a pattern was found. anchor: the node that gave its result; nodes_map: a node of the
    pattern -> what it was there."""

    anchor: Node
    nodes_map: dict[Node, Any]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Put `replacement` in each place of `gm` that is like `pattern`.

    Both take the same number of arguments. Calls of functions are alike if the function is the same
    object, calls of methods and modules if the name is.

    >>> import rushlight as torch
    >>> traced = torch.fx.symbolic_trace(lambda a, b: torch.relu(a + b))
    >>> found = replace_pattern(traced, lambda a, b: a + b, lambda a, b: a * b)
    >>> len(found), traced(torch.tensor(2.0), torch.tensor(3.0))
    (1, tensor(6.))
    """
    wanted, new = _graph_of(pattern), _graph_of(replacement)
    inputs, new_inputs = _inputs(wanted), _inputs(new)
    if len(inputs) != len(new_inputs):
        raise ValueError(
            f"replacement: takes {len(new_inputs)} arguments, but the pattern takes {len(inputs)}"
        )
    end = wanted.output_node().args[0]
    found, used = [], set[Node]()
    for node in gm.graph.nodes:
        match = _matched(end, node, wanted)
        inner = {n for p, n in match.items() if p.op != "placeholder"} if match else set()
        if match and not inner & used:
            used |= inner
            found.append(Match(node, match))
    replaced: dict[Node, Any] = {}
    for match in found:
        _replace(gm.graph, match, inputs, new, new_inputs, replaced)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return found


def _graph_of(program: Any) -> Graph:
    return (program if isinstance(program, GraphModule) else symbolic_trace(program)).graph


def _inputs(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _matched(end: Any, node: Node, pattern: Graph) -> dict[Node, Any] | None:
    """What each node of the pattern is if its result is `node`; None if it is not like it."""
    found: dict[Node, Any] = {}
    if not isinstance(end, Node) or not _alike(end, node, found):
        return None
    inner = {n for p, n in found.items() if p.op != "placeholder"}
    for known in inner - {node}:
        if any(user not in inner for user in known.users):
            return None
    return found if all(n in found for n in pattern.nodes if n.op != "output") else None


def _alike(wanted: Any, given: Any, found: dict[Node, Any]) -> bool:
    if isinstance(wanted, Node):
        if wanted in found:
            return found[wanted] is given
        if wanted.op == "placeholder":
            found[wanted] = given
            return True
        if not isinstance(given, Node) or (wanted.op, wanted.target) != (given.op, given.target):
            return False
        found[wanted] = given
        return _alike(wanted.args, given.args, found) and _alike(wanted.kwargs, given.kwargs, found)
    if isinstance(wanted, list | tuple):
        return (
            isinstance(given, list | tuple)
            and len(wanted) == len(given)
            and all(_alike(w, g, found) for w, g in zip(wanted, given, strict=True))
        )
    if isinstance(wanted, dict):
        return (
            isinstance(given, dict)
            and wanted.keys() == given.keys()
            and all(_alike(value, given[key], found) for key, value in wanted.items())
        )
    return type(wanted) is type(given) and wanted == given


def _replace(
    graph: Graph, match: Match, inputs: list[Node], new: Graph, new_inputs: list[Node],
    replaced: dict[Node, Any],
) -> None:  # fmt: skip
    """Copy the replacement before the anchor, whose users then read its result."""
    given = (match.nodes_map[node] for node in inputs)
    values: dict[Node, Any] = {
        node: replaced.get(value, value) if isinstance(value, Node) else value
        for node, value in zip(new_inputs, given, strict=True)
    }
    with graph.inserting_before(match.anchor):
        result = graph.graph_copy(new, values)
    replaced[match.anchor] = result
    match.anchor.replace_all_uses_with(result)
