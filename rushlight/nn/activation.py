"""Smooth activations: sigmoids, softmax and their relatives."""

from __future__ import annotations

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.rectifiers import InPlaceActivation


class SiLU(InPlaceActivation):
    """x * sigmoid(x), also called swish.

    Example:
        >>> SiLU()(torch.zeros(1))
        tensor([0.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.silu(input, inplace=self.inplace)


class Mish(InPlaceActivation):
    """x * tanh(softplus(x)).

    Example:
        >>> Mish()(torch.zeros(1))
        tensor([0.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.mish(input, inplace=self.inplace)


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    Example:
        >>> Sigmoid()(torch.zeros(1))
        tensor([0.5000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    Example:
        >>> Tanh()(torch.zeros(1))
        tensor([0.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.tanh(input)


class LogSigmoid(Module):
    """log(sigmoid(x)).

    Example:
        >>> LogSigmoid()(torch.zeros(1))
        tensor([-0.6931])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|).

    Example:
        >>> Softsign()(torch.ones(1))
        tensor([0.5000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    Example:
        >>> Tanhshrink()(torch.zeros(1))
        tensor([0.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.tanhshrink(input)


class GELU(Module):
    """x times the normal distribution function of x.

    Example:
        >>> GELU()(torch.zeros(1))
        tensor([0.])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta, and x itself far above zero.

    Example:
        >>> Softplus()(torch.zeros(1))
        tensor([0.6931])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class GLU(Module):
    """The first half of a dimension times the sigmoid of the second half.

    Example:
        >>> GLU()(torch.zeros(1, 4)).shape
        torch.Size([1, 2])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(Module):
    """Exponentials over their sum along dim.

    Example:
        >>> Softmax(dim=0)(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax.

    Example:
        >>> LogSoftmax(dim=0)(torch.zeros(2))
        tensor([-0.6931, -0.6931])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(Module):
    """Softmax of -x.

    Example:
        >>> Softmin(dim=0)(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softmin(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W).

    Example:
        >>> Softmax2d()(torch.zeros(1, 2, 1, 1)).flatten()
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)
