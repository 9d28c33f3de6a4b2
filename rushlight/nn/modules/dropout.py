"""Dropout: random zeros in training, nothing in evaluation."""

from __future__ import annotations

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.function_layer import FunctionLayer, layer


@layer()
class _DropoutNd(FunctionLayer):
    """The shared part: the probability."""

    p: float = 0.5
    inplace: bool = False

    def __post_init__(self) -> None:
        if self.p < 0 or self.p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {self.p}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


@layer(F.dropout)
class Dropout(_DropoutNd):
    """Set each element to zero with probability p and scale the others by 1 / (1 - p).

    Example:
        >>> Dropout(0.5).eval()(torch.ones(2))
        tensor([1., 1.])
    """


@layer(F.dropout1d)
class Dropout1d(_DropoutNd):
    """Dropout of whole channels of (N, C, L).

    Example:
        >>> Dropout1d(0.5)(torch.ones(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """


@layer(F.dropout2d)
class Dropout2d(_DropoutNd):
    """Dropout of whole channels of (N, C, H, W).

    Example:
        >>> Dropout2d(0.5)(torch.ones(2, 3, 4, 4)).shape
        torch.Size([2, 3, 4, 4])
    """


@layer(F.dropout3d)
class Dropout3d(_DropoutNd):
    """Dropout of whole channels of (N, C, D, H, W).

    Example:
        >>> Dropout3d(0.5)(torch.ones(2, 3, 4, 4, 4)).shape
        torch.Size([2, 3, 4, 4, 4])
    """


@layer(F.alpha_dropout)
class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance, for networks with SELU (Klambauer 2017).

    Example:
        >>> AlphaDropout(0.5).eval()(torch.ones(2))
        tensor([1., 1.])
    """


@layer(F.feature_alpha_dropout)
class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    Example:
        >>> FeatureAlphaDropout(0.5)(torch.ones(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """
