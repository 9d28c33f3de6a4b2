"""Dropout: random zeros in training, nothing in evaluation."""

from __future__ import annotations

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.module import Module


class _Dropout(Module):
    """The shared part: the probability."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Set each element to zero with probability p and scale the others by 1 / (1 - p).

    Example:
        >>> Dropout(0.5).eval()(torch.ones(2))
        tensor([1., 1.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Dropout of whole channels of (N, C, L).

    Example:
        >>> Dropout1d(0.5)(torch.ones(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Dropout of whole channels of (N, C, H, W).

    Example:
        >>> Dropout2d(0.5)(torch.ones(2, 3, 4, 4)).shape
        torch.Size([2, 3, 4, 4])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Dropout of whole channels of (N, C, D, H, W).

    Example:
        >>> Dropout3d(0.5)(torch.ones(2, 3, 4, 4, 4)).shape
        torch.Size([2, 3, 4, 4, 4])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)
