"""Which of several equal elements an op names: PyTorch leaves that open, so the oracle does too.

A sort that is not stable, topk, kthvalue and mode name one of several equal elements, and a
gradient goes to the one that is named. PyTorch's choice follows from how it happens to sort. In: a
case, results. Out: do our indices point at the elements that PyTorch's point at, none of them
twice; do our gradients equal PyTorch's when they are summed over the equal elements of a line?
"""

from __future__ import annotations

import numpy as np
from cases import array_in
from compare import differs

# op -> place of its argument `dim`; msort has none and sorts along the first.
DIM_AT = {"sort": 1, "argsort": 1, "topk": 2, "kthvalue": 2, "mode": 1, "msort": -1}


def lines_of(case: dict) -> tuple[np.ndarray, int] | None:
    """The input of a call that names elements, and along which dimension; None: another call."""
    (name, (_, args), (_, kwargs)), *more = case["calls"]
    name = name.removeprefix("Tensor.")
    if more or name not in DIM_AT or not args or args[0][0] != "tensor":
        return None
    if kwargs.get("stable", ("plain", False))[1]:
        return None
    at, dim = DIM_AT[name], -1 if name != "msort" else 0
    if 0 < at < len(args):
        dim = args[at][1]
    x = array_in(case["tensors"][args[0][1]])
    return np.atleast_1d(x), kwargs.get("dim", ("plain", dim))[1]


def wrong_results(case: dict, got: list[tuple]) -> str:
    """What is wrong with the results of a case; '' where nothing is."""
    if len(got) != len(case["want"]):
        return f"{len(got)} results, want {len(case['want'])}"
    for ours, theirs, slack in zip(got, case["want"], case["noise"], strict=True):
        wrong = differs(ours, theirs, case["how"], slack)
        if wrong and not same_elements(case, ours, theirs):
            return wrong
    return ""


def same_elements(case: dict, got: tuple, want: tuple) -> bool:
    """Do two arrays of indices name the same elements, up to equal ones?"""
    found = lines_of(case)
    if found is None or {got[0], want[0]} != {"int64"} or got[1].shape != want[1].shape:
        return False
    x, dim = found
    ours, theirs = (_as_lines(v[1], x, dim) for v in (got, want))
    if ours is None or theirs is None or ((ours < 0) | (ours >= x.shape[dim])).any():
        return False
    once = np.diff(np.sort(ours, dim), axis=dim).all()
    pairs = (np.take_along_axis(x, index, dim) for index in (ours, theirs))
    return bool(once) and np.array_equal(*pairs, equal_nan=x.dtype.kind in "fc")


def _as_lines(index: np.ndarray, x: np.ndarray, dim: int) -> np.ndarray | None:
    """Indices with the dimensions of x; without `keepdim` they lack one. None: another shape."""
    index = np.atleast_1d(index)
    if index.ndim == x.ndim - 1:
        index = np.expand_dims(index, dim)
    wanted = [n for i, n in enumerate(x.shape) if i != dim % x.ndim]
    have = [n for i, n in enumerate(index.shape) if i != dim % x.ndim]
    return index if wanted == have and index.ndim == x.ndim else None


def same_gradients(
    case: dict, tensor: int, got: tuple | None, want: tuple | None, slack: float, factor: float
) -> bool:
    """Are two gradients of the input equal, summed over the equal elements of each line?"""
    found = lines_of(case)
    if found is None or got is None or want is None or got[1].shape != want[1].shape:
        return False
    if tensor != case["calls"][0][1][1][0][1]:
        return False
    x, dim = found
    ours, theirs = ((v[0], _summed(v[1].reshape(x.shape), x, dim)) for v in (got, want))
    return not differs(ours, theirs, "", slack, factor)


def _summed(g: np.ndarray, x: np.ndarray, dim: int) -> np.ndarray:
    """For each element the sum of g over the elements of its line that equal it."""
    g, x = np.moveaxis(g, dim, -1), np.moveaxis(x, dim, -1)
    result = np.empty(g.shape, np.complex128 if g.dtype.kind == "c" else np.float64)
    for at in np.ndindex(x.shape[:-1]):
        _, group = np.unique(x[at], return_inverse=True)
        sums = np.zeros(x.shape[-1], result.dtype)
        np.add.at(sums, group, g[at])
        result[at] = sums[group]
    return result
