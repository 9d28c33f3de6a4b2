"""`associative_scan`: all running results of an associative function, in few rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.utils._pytree import tree_flatten

Leaves = list[torch.Tensor]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:  # fmt: skip
    """y[i] = combine_fn(y[i - 1], x[i]) along `dim`, y[0] = x[0].

    combine_fn: associative, on tensors or containers like `xs`. combine_mode: "pointwise" for a
    function of elements; "generic" for any, which then sees one place of `dim` at a time. reverse:
    from the last place to the first.

    >>> import rushlight as torch
    >>> associative_scan(torch.mul, torch.tensor([1, 2, 3, 4]), 0)
    tensor([ 1,  2,  6, 24])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"combine_mode: got {combine_mode!r}, allowed are 'pointwise' and 'generic'"
        )
    leaves, spec = tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if any(not isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise ValueError("xs leaves must be a Tensor")
    leaves = [leaf.movedim(dim, 0) for leaf in leaves]
    leaves = [leaf.flip(0) for leaf in leaves] if reverse else leaves

    def combine(left: Leaves, right: Leaves) -> Leaves:
        def step(a: Leaves, b: Leaves) -> Leaves:
            return tree_flatten(combine_fn(spec.unflatten(a), spec.unflatten(b)))[0]

        return torch.func.vmap(step)(left, right) if combine_mode == "generic" else (
            step(left, right))  # fmt: skip

    found = _rounds(combine, leaves)
    found = [leaf.flip(0) for leaf in found] if reverse else found
    return spec.unflatten([leaf.movedim(0, dim) for leaf in found])


def _rounds(combine: Callable[[Leaves, Leaves], Leaves], leaves: Leaves) -> Leaves:
    """Round k joins to each place what is 2**k places before it."""
    length, far = leaves[0].shape[0], 1
    while far < length:
        joined = combine([leaf[:-far] for leaf in leaves], [leaf[far:] for leaf in leaves])
        leaves = [torch.cat([leaf[:far], new]) for leaf, new in zip(leaves, joined, strict=True)]
        far *= 2
    return leaves
