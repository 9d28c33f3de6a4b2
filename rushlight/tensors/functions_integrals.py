"""Integrals by trapezoids and slopes by differences, from samples of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.ir.arguments import wrap_dim
from rushlight.tensors.creation import full
from rushlight.tensors.functions_reduce import cumsum
from rushlight.tensors.functions_reduce import sum as sum_
from rushlight.tensors.functions_shape import cat
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_view import expand, reshape, unsqueeze
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor


def _panels(y: Tensor, x: Any, dx: Any, dim: int) -> Tensor:
    """The area of each panel between neighbours."""
    dim = wrap_dim(dim, y.dim())
    size = y._shape[dim]
    pair = narrow(y, dim, 0, size - 1) + narrow(y, dim, 1, size - 1)
    if x is None:
        return pair * (dx / 2 if not isinstance(dx, Tensor) else dx * 0.5)
    if x.dim() == 1:
        x = reshape(x, (-1, *(1,) * (y.dim() - 1 - dim)))
        steps = narrow(x, 0, 1, x._shape[0] - 1) - narrow(x, 0, 0, x._shape[0] - 1)
    else:
        while x.dim() < y.dim():
            x = unsqueeze(x, 0)
        at = x._shape[dim]
        steps = narrow(x, dim, 1, at - 1) - narrow(x, dim, 0, at - 1)
    return pair * steps * 0.5


def trapezoid(y: Tensor, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integral by trapezoids along dim."""
    at = wrap_dim(dim, y.dim())
    if not y._shape[at]:
        return sum_(y, at)
    return sum_(_panels(y, x, dx, dim), at)


def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """Running integrals by trapezoids along dim."""
    at = wrap_dim(dim, y.dim())
    return cumsum(_panels(y, x, dx, dim), at)


def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Slopes by central differences along each dim; one-sided at the ends."""
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [wrap_dim(d, input.dim()) for d in dims]
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    spaces = list(spacing) if isinstance(spacing, list | tuple) else [spacing] * len(dims)
    if len(spaces) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar or a list of length "
            f"{len(dims)}, but got a list of length {len(spaces)}"
        )
    for d in dims:
        if input._shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    return tuple(_slopes(input, d, s, edge_order) for d, s in zip(dims, spaces, strict=True))


def _slopes(x: Tensor, dim: int, space: Any, order: int) -> Tensor:
    size = x._shape[dim]

    def at(i: int, n: int = 1) -> Tensor:
        return narrow(x, dim, i if i >= 0 else size + i, n)

    if isinstance(space, Tensor) and space.dim():
        shape = [-1 if d == dim else 1 for d in range(x.dim())]
        steps = reshape(narrow(space, 0, 1, size - 1) - narrow(space, 0, 0, size - 1), shape)
    else:
        steps = expand(full((), 1.0, dtype=x._dtype) * space,
                       [size - 1 if d == dim else 1 for d in range(x.dim())])  # fmt: skip

    def h(i: int, n: int = 1) -> Tensor:
        return narrow(steps, dim, i if i >= 0 else size - 1 + i, n)

    left, right = h(0, size - 2), h(1, size - 2)
    inner = (at(2, size - 2) * (left / (right * (left + right)))
             + at(1, size - 2) * ((right - left) / (left * right))
             - at(0, size - 2) * (right / (left * (left + right))))  # fmt: skip
    if order == 1:
        first, last = (at(1) - at(0)) / h(0), (at(-1) - at(-2)) / h(-1)
    else:
        a, b, c, d = h(0), h(1), h(-2), h(-1)
        first = (-at(0) * ((2 * a + b) / (a * (a + b))) + at(1) * ((a + b) / (a * b))
                 - at(2) * (a / (b * (a + b))))  # fmt: skip
        last = (at(-3) * (d / (c * (c + d))) - at(-2) * ((c + d) / (c * d))
                + at(-1) * ((c + 2 * d) / (d * (c + d))))  # fmt: skip
    return cat([first, inner, last], dim)


FUNCTIONS: dict[str, Callable] = {
    **by_name(trapezoid, cumulative_trapezoid, gradient), "trapz": trapezoid,
}  # fmt: skip
METHODS: dict[str, Callable] = {}
