"""`torch.func.vmap`: a function over the elements of a dimension.

The function is called once for each element, and the results are stacked. All calls are recorded
before anything is computed, so the compiler sees them together; but a large batch is a large graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten


def _spread(in_dims: Any, tree: Any) -> list[int | None]:
    """One dimension for each leaf: `in_dims` is one for all, or a tree of them."""
    leaves, _ = tree_flatten(tree)
    if in_dims is None or isinstance(in_dims, int):
        return [in_dims] * len(leaves)
    parts = zip(in_dims, tree, strict=True) if isinstance(tree, list | tuple) else (
        (in_dims[key], tree[key]) for key in tree)  # fmt: skip
    return [dim for given, part in parts for dim in _spread(given, part)]


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that maps `func` over dimension `in_dims` of its arguments (None: not over it).

    >>> import rushlight as torch
    >>> torch.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        dims = _spread(in_dims, args)
        sizes = {leaf.size(dim) for leaf, dim in zip(leaves, dims, strict=True)
                 if isinstance(leaf, torch.Tensor) and dim is not None}  # fmt: skip
        if len(sizes) != 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {sorted(sizes)} for the mapped dimension"
            )
        results = []
        for i in range(sizes.pop()):
            one = [
                leaf.select(dim, i) if isinstance(leaf, torch.Tensor) and dim is not None else leaf
                for leaf, dim in zip(leaves, dims, strict=True)
            ]
            results.append(func(*tree_unflatten(one, spec), **kwargs))
        return _stacked(results, out_dims)

    return wrapped


def _stacked(results: list[Any], out_dims: Any) -> Any:
    first, spec = tree_flatten(results[0])
    outs = [out_dims] * len(first) if isinstance(out_dims, int) else tree_leaves(out_dims)
    columns = zip(*(tree_leaves(result) for result in results), strict=True)
    stacked = [
        parts[0] if dim is None else torch.stack([torch.as_tensor(part) for part in parts], dim)
        for parts, dim in zip(columns, outs, strict=True)
    ]
    return tree_unflatten(stacked, spec)
