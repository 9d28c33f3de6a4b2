"""The masks of the library by name, with numbers for parameters: for pictures and the command line.

In: a name, a length, parameters as whole numbers or lists of them. Out: the mask_mod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.attention import masks

Parameter = int | list[int]


def _document(length: int, lengths: Any) -> Callable:
    """Documents of these lengths, the last as long as need be."""
    lengths = lengths if isinstance(lengths, list) else [lengths] * -(-length // max(1, lengths))
    ids = np.repeat(np.arange(len(lengths)), lengths)[:length]
    return masks.document(torch.tensor(np.pad(ids, (0, length - len(ids)), mode="edge")))


def _tree(length: int, parents: Any) -> Callable:
    """parents[i]: the parent of node i + 1; what is missing follows its predecessor."""
    parents = parents if isinstance(parents, list) else [parents]
    above = np.zeros((length, length), bool)
    for node in range(1, length):
        parent = parents[node - 1] if node <= len(parents) else node - 1
        if not 0 <= parent < node:
            raise ValueError(f"tree: the parent of node {node} must be one before it, got {parent}")
        above[node] = above[parent]
        above[node, parent] = True
    return masks.tree(torch.tensor(above))


def _natten_2d(length: int, width: Any, kernel: Any) -> Callable:
    return masks.natten_2d(-(-length // width), width, kernel)


# Name -> (what makes it, its parameters with the values for a picture of 64 queries).
GALLERY: dict[str, tuple[Callable[..., Callable], dict[str, Parameter]]] = {
    "causal": (lambda length: masks.causal, {}),
    "sliding_window": (lambda length, window: masks.sliding_window(window), {"window": 16}),
    "prefix_lm": (lambda length, prefix: masks.prefix_lm(prefix), {"prefix": 16}),
    "document": (_document, {"lengths": [20, 12, 32]}),
    "dilated": (lambda length, step: masks.dilated(step), {"step": 4}),
    "block_diagonal": (lambda length, size: masks.block_diagonal(size), {"size": 16}),
    "tree": (_tree, {"parents": [0, 0, 1, 1, 2, 2]}),
    "natten_2d": (_natten_2d, {"width": 8, "kernel": 3}),
}


def mask_by_name(name: str, length: int, **parameters: Parameter) -> Callable:
    """A mask of the library.

    Example:
        >>> mask = mask_by_name("sliding_window", 64, window=8)
    """
    if name not in GALLERY:
        raise ValueError(f"there is no mask {name!r}; there are {', '.join(GALLERY)}")
    make, defaults = GALLERY[name]
    unknown = sorted(set(parameters) - set(defaults))
    if unknown:
        known = ", ".join(defaults) or "none"
        raise ValueError(f"mask {name} has no parameter {unknown[0]!r}; its parameters are {known}")
    return make(length, **(defaults | parameters))
