"""A running sum becomes a scan of all its chunks, one of their sums, and additions.

before   %2 = scan_running_sum(%1 : f32[2, 2048], 1)
after    %2 = scan_sum(%1 as [2, 4, 512], 2)     chunks, independent of each other
         %3 = scan_sum(the last of each chunk, 1)
         %4 = %2 + the %3 of the chunk before    (the first chunk as it is)

So it is where the target has no scan that goes from chunk to chunk, and where rows are few: chunks
are work for many threads, though each value goes to memory once more. The bits are equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.compiler.decisions import SILENT, Trace, defined_at
from rushlight.compiler.graph.decompose import decompose
from rushlight.ir.node import Node, topological, with_sources
from rushlight.ir.symint_math import product
from rushlight.ops.softmaxes import running_sum_in_steps


def split_running_sums(
    one_pass_rows: int,
    roots: Sequence[Node],
    came_from: dict[Node, Node] | None = None,
    trace: Trace = SILENT,
) -> list[Node]:
    """The same values; `came_from` gets new node -> old node. one_pass_rows: see Graph."""
    new: dict[Node, Node] = {}
    for node in topological(list(roots)):
        here = new[node] = with_sources(node, tuple(new[s] for s in node.src))
        if node.name == "scan_running_sum" and not _fits_one_pass(node, one_pass_rows):
            (new[node],) = decompose(
                [running_sum_in_steps(here.src[0], here.attrs[0])], trace=trace
            )
            trace.rewrote("split_running_sums", defined_at(running_sum_in_steps), here, new[node])
        if came_from is not None and new[node] is not node:
            came_from.setdefault(new[node], node)
    return [new[root] for root in roots]


def _fits_one_pass(node: Node, least: int) -> bool:
    """Rows of a number that is not known count as many: steps would fill up rows that are short."""
    (dim,) = node.attrs
    rows = product(n for i, n in enumerate(node.shape) if i != dim)
    return least > 0 and (not isinstance(rows, int) or rows >= least)
