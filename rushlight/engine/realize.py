"""Flush: compute every live pending value. (This first version evaluates by the interpreter.)"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.engine.live import live_refs
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node
from rushlight.runtime.buffer import allocate


def flush(extra: Sequence[Node] = ()) -> None:
    """Compute all live pending nodes and `extra`; each becomes a buffer leaf."""
    wanted = [ref.node for ref in live_refs() if ref.node.leaf != "buffer"]
    roots = list(dict.fromkeys([*wanted, *(n for n in extra if n.leaf != "buffer")]))
    arrays = interpret(roots, lambda leaf: leaf.buffer.view(leaf.dtype, leaf.shape))
    for node, array in zip(roots, arrays, strict=True):
        buffer = allocate(array.nbytes)
        buffer.view(node.dtype, node.shape)[...] = array
        node.become_leaf(buffer)


def read(node: Node) -> np.ndarray:
    """The value as a numpy array over the node's own memory (flushes if pending)."""
    if node.leaf != "buffer":
        flush((node,))
    return node.buffer.view(node.dtype, node.shape)
