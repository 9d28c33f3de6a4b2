"""CosineSimilarity, PairwiseDistance."""

from __future__ import annotations

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between vectors.

    Example:
        >>> CosineSimilarity(dim=0)(torch.ones(2), torch.ones(2))
        tensor(1.0000)
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps over the last dimension.

    Example:
        >>> PairwiseDistance()(torch.zeros(1, 2), torch.ones(1, 2))
        tensor([1.4142])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        difference = x1 - x2 + self.eps
        return torch.linalg.vector_norm(difference, self.norm, dim=-1, keepdim=self.keepdim)
