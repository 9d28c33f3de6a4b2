"""LayerNorm, RMSNorm, GroupNorm: normalization within each sample."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter


def as_shape(shape: int | Iterable[int]) -> tuple[int, ...]:
    """Return (n,) for a number."""
    return (int(shape),) if isinstance(shape, numbers.Integral) else tuple(shape)


class LayerNorm(Module):
    """Normalize over the last dimensions, then scale by `weight` and add `bias`.

    Example:
        >>> LayerNorm(3)(torch.zeros(2, 3)).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        normalized_shape: int | Iterable[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, is_there in {"weight": True, "bias": bias}.items():
            start = None
            if elementwise_affine and is_there:
                start = Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype))
            self.register_parameter(name, start)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start as plain normalization: weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide by the root of the mean square over the last dimensions, then scale.

    Example:
        >>> RMSNorm(3)(torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        normalized_shape: int | Iterable[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        start = None
        if elementwise_affine:
            start = Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", start)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start with weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Normalize over groups of channels, then scale and shift each channel.

    Example:
        >>> GroupNorm(2, 6)(torch.zeros(1, 6, 4, 4)).shape
        torch.Size([1, 6, 4, 4])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, is_there in {"weight": True, "bias": bias}.items():
            start = None
            if affine and is_there:
                start = Parameter(torch.empty(num_channels, device=device, dtype=dtype))
            self.register_parameter(name, start)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start as plain normalization: weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
