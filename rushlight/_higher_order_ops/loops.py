"""`scan` and `while_loop`: steps one after the other, each a call of a function; `cond`: one of two
functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.utils._pytree import tree_flatten, tree_map


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """(carry, ys): `carry, y = combine_fn(carry, x)` for each place of `xs` along `dim`; the ys are
    stacked along a new first dimension.

    >>> import rushlight as torch
    >>> scan(lambda c, x: (c + x, c * x), torch.tensor(0), torch.tensor([1, 2, 3]))
    (tensor(6), tensor([0, 2, 9]))
    """
    leaves, spec = tree_flatten(xs)
    places = range(leaves[0].shape[dim] if leaves else 0)
    carry, found = init, []
    for i in reversed(places) if reverse else places:
        carry, y = combine_fn(carry, spec.unflatten([leaf.select(dim, i) for leaf in leaves]))
        found.append(y)
    if not found:
        return carry, []
    found = found[::-1] if reverse else found
    return carry, tree_map(lambda *parts: torch.stack(parts), *found)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple | list
) -> tuple:
    """`carried = body_fn(*carried)` as long as `cond_fn(*carried)`.

    >>> import rushlight as torch
    >>> while_loop(lambda i: i < 5, lambda i: (i + 2,), (torch.tensor(0),))
    (tensor(6),)
    """
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        found = body_fn(*carried)
        carried = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    return carried


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
         operands: tuple | list = ()) -> Any:  # fmt: skip
    """`true_fn(*operands)` or `false_fn(*operands)`; `pred` is a bool or a tensor of one element,
    whose value is looked at.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> cond(x.sum() > 2, lambda v: v + 1, lambda v: v - 1, (x,))
    tensor([2., 3.])
    """
    if isinstance(pred, torch.Tensor) and (pred.dtype is not torch.bool or pred.numel() != 1):
        raise RuntimeError(
            f"Expected pred to be bool or single-element boolean tensor, but got {pred}"
        )
    if not isinstance(pred, bool | torch.Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    return true_fn(*operands) if pred else false_fn(*operands)
