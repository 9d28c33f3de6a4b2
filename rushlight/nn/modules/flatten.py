"""Flatten, Unflatten: reshaping as modules."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn.modules.function_layer import FunctionLayer, layer
from rushlight.nn.modules.module import Module


@layer(torch.flatten)
class Flatten(FunctionLayer):
    """Join the dimensions from `start_dim` to `end_dim`.

    Example:
        >>> Flatten()(torch.zeros(2, 3, 4)).shape
        torch.Size([2, 12])
    """

    start_dim: int = 1
    end_dim: int = -1


class Unflatten(Module):
    """Split one dimension into several.

    Example:
        >>> Unflatten(1, (3, 4))(torch.zeros(2, 12)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(self, dim: int | str, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError("Unflatten takes an int for dim: named dimensions do not exist here")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                "unflattened_size must be a tuple of ints, "
                f"but found type {type(unflattened_size).__name__}"
            )
        for place, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {place}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
