"""Activations: a function of each element, or of each row."""

from __future__ import annotations

import warnings
from dataclasses import InitVar
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.function_layer import FunctionLayer, layer
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.multihead_attention import MultiheadAttention as MultiheadAttention
from rushlight.nn.parameter import Parameter


@layer(torch.sigmoid)
class Sigmoid(FunctionLayer):
    """1 / (1 + exp(-x)).

    Example:
        >>> Sigmoid()(torch.zeros(1))
        tensor([0.5000])
    """


@layer(torch.tanh)
class Tanh(FunctionLayer):
    """The hyperbolic tangent.

    Example:
        >>> Tanh()(torch.zeros(1))
        tensor([0.])
    """


@layer(F.logsigmoid)
class LogSigmoid(FunctionLayer):
    """log(sigmoid(x)).

    Example:
        >>> LogSigmoid()(torch.zeros(1))
        tensor([-0.6931])
    """


@layer(F.softsign)
class Softsign(FunctionLayer):
    """x / (1 + |x|).

    Example:
        >>> Softsign()(torch.ones(1))
        tensor([0.5000])
    """


@layer(F.tanhshrink)
class Tanhshrink(FunctionLayer):
    """x - tanh(x).

    Example:
        >>> Tanhshrink()(torch.zeros(1))
        tensor([0.])
    """


@layer(F.relu)
class ReLU(FunctionLayer):
    """max(0, x).

    Example:
        >>> ReLU()(torch.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """

    inplace: bool = False


@layer(F.silu)
class SiLU(FunctionLayer):
    """x * sigmoid(x), also called swish.

    Example:
        >>> SiLU()(torch.zeros(1))
        tensor([0.])
    """

    inplace: bool = False


@layer(F.mish)
class Mish(FunctionLayer):
    """x * tanh(softplus(x)).

    Example:
        >>> Mish()(torch.zeros(1))
        tensor([0.])
    """

    inplace: bool = False


@layer(F.selu)
class SELU(FunctionLayer):
    """The self-normalizing scale * elu(x, alpha).

    Example:
        >>> SELU()(torch.zeros(1))
        tensor([0.])
    """

    inplace: bool = False


@layer(F.hardswish)
class Hardswish(FunctionLayer):
    """x * relu6(x + 3) / 6.

    Example:
        >>> Hardswish()(torch.zeros(1))
        tensor([0.])
    """

    inplace: bool = False
    shown = ()


@layer(F.hardsigmoid)
class Hardsigmoid(FunctionLayer):
    """relu6(x + 3) / 6.

    Example:
        >>> Hardsigmoid()(torch.zeros(1))
        tensor([0.5000])
    """

    inplace: bool = False
    shown = ()


def renamed(old_name: str, old: float | None, new_name: str, new: float) -> float:
    """Return the value given under an argument's old name, with a warning, or the new one."""
    if old is None:
        return new
    warnings.warn(
        f"keyword argument `{old_name}` is deprecated and rename to `{new_name}`",
        FutureWarning,
        stacklevel=5,
    )
    return old


@layer(F.hardtanh)
class Hardtanh(FunctionLayer):
    """x clamped to [min_val, max_val].

    Example:
        >>> Hardtanh()(torch.tensor([3.0]))
        tensor([1.])
    """

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False
    min_value: InitVar[float | None] = None
    max_value: InitVar[float | None] = None

    def __post_init__(self, min_value: float | None, max_value: float | None) -> None:
        self.min_val = renamed("min_value", min_value, "min_val", self.min_val)
        self.max_val = renamed("max_value", max_value, "max_val", self.max_val)
        if self.max_val <= self.min_val:
            raise AssertionError(
                f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})"
            )


class ReLU6(Hardtanh):
    """min(max(0, x), 6).

    Example:
        >>> ReLU6()(torch.tensor([8.0]))
        tensor([6.])
    """

    shown = ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


@layer(F.threshold)
class Threshold(FunctionLayer):
    """x above threshold, else value.

    Example:
        >>> Threshold(0.0, 9.0)(torch.tensor([-1.0, 1.0]))
        tensor([9., 1.])
    """

    threshold: float
    value: float
    inplace: bool = False


@layer(F.leaky_relu)
class LeakyReLU(FunctionLayer):
    """x above zero, negative_slope * x below.

    Example:
        >>> LeakyReLU(0.5)(torch.tensor([-1.0, 1.0]))
        tensor([-0.5000,  1.0000])
    """

    negative_slope: float = 1e-2
    inplace: bool = False


@layer(F.rrelu)
class RReLU(FunctionLayer):
    """x above zero, a random slope times x below.

    Example:
        >>> RReLU()(torch.ones(1))
        tensor([1.])
    """

    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


@layer(F.elu)
class ELU(FunctionLayer):
    """x above zero, alpha * (exp(x) - 1) below.

    Example:
        >>> ELU()(torch.ones(1))
        tensor([1.])
    """

    alpha: float = 1.0
    inplace: bool = False


@layer(F.celu)
class CELU(FunctionLayer):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    Example:
        >>> CELU()(torch.ones(1))
        tensor([1.])
    """

    alpha: float = 1.0
    inplace: bool = False


@layer(F.gelu)
class GELU(FunctionLayer):
    """x times the normal distribution function of x.

    Example:
        >>> GELU()(torch.zeros(1))
        tensor([0.])
    """

    approximate: str = "none"


@layer(F.softplus)
class Softplus(FunctionLayer):
    """log(1 + exp(beta * x)) / beta, and x itself far above zero.

    Example:
        >>> Softplus()(torch.zeros(1))
        tensor([0.6931])
    """

    beta: float = 1.0
    threshold: float = 20.0


@layer(F.hardshrink)
class Hardshrink(FunctionLayer):
    """x, and zero in [-lambd, lambd].

    Example:
        >>> Hardshrink()(torch.tensor([0.2]))
        tensor([0.])
    """

    lambd: float = 0.5

    def extra_repr(self) -> str:
        return f"{self.lambd}"


@layer(F.softshrink)
class Softshrink(Hardshrink):
    """x moved towards zero by lambd.

    Example:
        >>> Softshrink()(torch.ones(1))
        tensor([0.5000])
    """


@layer(F.glu)
class GLU(FunctionLayer):
    """The first half of a dimension times the sigmoid of the second half.

    Example:
        >>> GLU()(torch.zeros(1, 4)).shape
        torch.Size([1, 2])
    """

    dim: int = -1


@layer(F.softmax)
class Softmax(FunctionLayer):
    """Exponentials over their sum along dim.

    Example:
        >>> Softmax(dim=0)(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """

    dim: int | None = None


@layer(F.log_softmax)
class LogSoftmax(FunctionLayer):
    """The logarithm of softmax.

    Example:
        >>> LogSoftmax(dim=0)(torch.zeros(2))
        tensor([-0.6931, -0.6931])
    """

    dim: int | None = None


@layer(F.softmin)
class Softmin(FunctionLayer):
    """Softmax of -x.

    Example:
        >>> Softmin(dim=0)(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """

    dim: int | None = None


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


class PReLU(Module):
    """x above zero, a learned slope times x below.

    Example:
        >>> PReLU()(torch.tensor([-1.0])).detach()
        tensor([-0.2500])
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start with the slope `init`."""
        with torch.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
