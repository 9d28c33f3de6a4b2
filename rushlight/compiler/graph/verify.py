"""Is a graph well formed? Each node is checked against its record.

In: roots, and hints for symbolic sizes. Out: nothing, or InvalidGraph that names the node. Checked:
the record's rules give the shape and dtype that the node has; no composite is left; leaves are
leaves of a program.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.compiler.graph.concrete import concretize
from rushlight.compiler.sizes import Hints
from rushlight.ir.node import Node


class InvalidGraph(ValueError):
    """A graph breaks a rule of the graph language: a fault of the compiler."""


def verify_graph(roots: Sequence[Node], hints: Hints) -> None:
    """Raise InvalidGraph unless the graph is well formed and primitive."""
    # Rules compare sizes; symbolic ones may be equal without being the same expression.
    for node, concrete in concretize(roots, hints).items():
        if not node.leaf:
            _verify_node(node, concrete)


def _verify_node(node: Node, concrete: Node) -> None:
    op = concrete.op
    assert op is not None
    if op.kind == "composite":
        raise InvalidGraph(f"{node!r} is composite: the pass decompose should have removed it")
    try:
        call = op.call_of(concrete)
        shape, dtype = op.shape(call), op.dtype(call)
    except Exception as error:
        raise InvalidGraph(f"{node!r} of {list(node.src)}: its record refuses it: {error}") from error
    if tuple(shape) != concrete.shape or dtype is not concrete.dtype:
        raise InvalidGraph(
            f"{node!r} of {list(node.src)}: its record gives {dtype.name}{list(shape)}"
        )
