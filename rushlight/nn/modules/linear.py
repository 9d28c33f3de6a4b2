"""Linear, Bilinear, Identity."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter


class Identity(Module):
    """Return the input; arguments of the constructor are ignored.

    Example:
        >>> Identity(54, unused=True)(3)
        3
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input


class Linear(Module):
    """y = x @ weight.T + bias.

    Example:
        >>> Linear(3, 2)(torch.zeros(4, 3)).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(torch.empty((out_features, in_features), **options))
        start = Parameter(torch.empty(out_features, **options)) if bias else None
        self.register_parameter("bias", start)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from [-1/sqrt(in_features), 1/sqrt(in_features)]."""
        # A gain for slope sqrt(5) makes the bound of kaiming_uniform_ 1/sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear that other code tells from the rest by its class: the output of attention."""


class Bilinear(Module):
    """y[o] = x1 @ weight[o] @ x2 + bias[o].

    Example:
        >>> Bilinear(2, 3, 4)(torch.zeros(5, 2), torch.zeros(5, 3)).shape
        torch.Size([5, 4])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        options = {"device": device, "dtype": dtype}
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(torch.empty(shape, **options))
        start = Parameter(torch.empty(out_features, **options)) if bias else None
        self.register_parameter("bias", start)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from [-1/sqrt(in1_features), 1/sqrt(in1_features)]."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: torch.Tensor, input2: torch.Tensor) -> torch.Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
