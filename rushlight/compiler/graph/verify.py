"""Is a graph between two passes well formed? Nodes agree with their records; all are primitive.

In: roots, and hints for symbolic sizes. Out: nothing, or InvalidGraph (ir/verify.py), which prints
the node.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.compiler.graph.concrete import concretize
from rushlight.compiler.sizes import Hints
from rushlight.ir import verify
from rushlight.ir.node import Node


def verify_graph(roots: Sequence[Node], hints: Hints) -> None:
    """Raise InvalidGraph unless the graph is well formed and primitive."""
    # Rules compare sizes; symbolic ones may be equal without being the same expression.
    concrete = concretize(roots, hints)
    verify.verify_graph([concrete[root] for root in roots], lambda op: op.kind != "composite")
