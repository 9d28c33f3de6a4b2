"""Powers of the elements of a vector as the columns of a matrix (Vandermonde)."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.base.dtypes import bool_, int64
from rushlight.tensors.creation import empty, ones
from rushlight.tensors.functions_shape import flip, stack
from rushlight.tensors.functions_view import unsqueeze
from rushlight.tensors.placing import brought
from rushlight.tensors.tensor import Tensor


def vander(x: Tensor, N: int | None = None) -> Tensor:  # noqa: N803
    """Powers 0, 1, ... N - 1 of each element, along a new last dimension."""
    if x.dim() == 0:
        x = unsqueeze(x, 0)
    count = x._shape[-1] if N is None else N
    if count <= 0:
        raise RuntimeError("N must be greater than 1.")
    x = x.to(int64) if x._dtype.name == "bool" else x
    rows = [brought(ones(*x._shape, dtype=x._dtype), x)]
    for _ in range(count - 1):
        rows.append(rows[-1] * x)
    return stack(rows, -1)


def old_vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803
    """torch.vander: powers of each element of a vector, the highest first unless `increasing`."""
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    if N is not None and N < 0:
        raise RuntimeError("N must be non-negative.")
    if N == 0:
        return empty(x._shape[0], 0, dtype=int64 if x._dtype is bool_ else x._dtype)
    powers = vander(x, N)
    return powers if increasing else flip(powers, -1)


FUNCTIONS: dict[str, Callable] = {"vander": old_vander}
METHODS: dict[str, Callable] = {}
