"""CosineSimilarity, PairwiseDistance."""

from __future__ import annotations

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.function_layer import FunctionLayer, layer


@layer(F.cosine_similarity)
class CosineSimilarity(FunctionLayer):
    """The cosine of the angle between vectors.

    Example:
        >>> CosineSimilarity(dim=0)(torch.ones(2), torch.ones(2))
        tensor(1.0000)
    """

    dim: int = 1
    eps: float = 1e-8
    shown = ()

    def forward(  # type: ignore[override]
        self, x1: torch.Tensor, x2: torch.Tensor
    ) -> torch.Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


@layer(F.pairwise_distance)
class PairwiseDistance(FunctionLayer):
    """The p-norm of x1 - x2 + eps over the last dimension.

    Example:
        >>> PairwiseDistance()(torch.zeros(1, 2), torch.ones(1, 2))
        tensor([1.4142])
    """

    p: float = 2.0
    eps: float = 1e-6
    keepdim: bool = False
    shown = ()

    def __post_init__(self) -> None:
        self.norm = self.__dict__.pop("p")

    def forward(  # type: ignore[override]
        self, x1: torch.Tensor, x2: torch.Tensor
    ) -> torch.Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
