"""Normalization within each sample: LayerNorm, RMSNorm, GroupNorm, LocalResponseNorm."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.affine import AffineModule
from rushlight.nn.modules.function_layer import FunctionLayer, layer
from rushlight.nn.parameter import Parameter


def as_shape(shape: int | Iterable[int]) -> tuple[int, ...]:
    """Return (n,) for a number."""
    return (int(shape),) if isinstance(shape, numbers.Integral) else tuple(shape)


class LayerNorm(AffineModule):
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
        has_bias = elementwise_affine and bias
        self.register_affine(self.normalized_shape, elementwise_affine, has_bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(AffineModule):
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

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(AffineModule):
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
        self.register_affine(num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


@layer(F.local_response_norm)
class LocalResponseNorm(FunctionLayer):
    """Divide each channel by a power of the mean square of its neighbours (Krizhevsky 2012).

    Example:
        >>> LocalResponseNorm(2)(torch.zeros(1, 3, 4, 4)).shape
        torch.Size([1, 3, 4, 4])
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """The LocalResponseNorm of Torch7: (N, C, H, W) with equal numbers of neighbours on both sides.

    Channel 0 stays in every window once it was in one: old checkpoints were trained so.

    Example:
        >>> CrossMapLRN2d(2)(torch.zeros(1, 3, 4, 4)).shape
        torch.Size([1, 3, 4, 4])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size - 1) // 2
        squares = input * input
        padded = F.pad(squares, (0, 0, 0, 0, reach, reach))
        total = padded.unfold(1, 2 * reach + 1, 1).sum(-1)
        has_left_zero = torch.arange(input.size(1), device=input.device) > reach
        total = total + squares[:, :1] * has_left_zero.view(-1, 1, 1)
        return input * (self.k + self.alpha / self.size * total).pow(-self.beta)
