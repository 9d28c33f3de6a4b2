"""Activations made of pieces: rectifiers, clamps and shrinkers."""

from __future__ import annotations

import warnings
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter


class InPlaceActivation(Module):
    """An activation whose only setting is `inplace`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(InPlaceActivation):
    """max(0, x).

    Example:
        >>> ReLU()(torch.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.relu(input, inplace=self.inplace)


def renamed(old_name: str, old: float | None, new_name: str, new: float) -> float:
    """Return the value given under an argument's old name, with a warning, or the new one."""
    if old is None:
        return new
    warnings.warn(
        f"keyword argument `{old_name}` is deprecated and rename to `{new_name}`",
        FutureWarning,
        stacklevel=3,
    )
    return old


class Hardtanh(Module):
    """x clamped to [min_val, max_val].

    Example:
        >>> Hardtanh()(torch.tensor([3.0]))
        tensor([1.])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        self.min_val = renamed("min_value", min_value, "min_val", min_val)
        self.max_val = renamed("max_value", max_value, "max_val", max_val)
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(
                f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})"
            )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        text = f"min_val={self.min_val}, max_val={self.max_val}"
        return text + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """min(max(0, x), 6).

    Example:
        >>> ReLU6()(torch.tensor([8.0]))
        tensor([6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """x above zero, negative_slope * x below.

    Example:
        >>> LeakyReLU(0.5)(torch.tensor([-1.0, 1.0]))
        tensor([-0.5000,  1.0000])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


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


class RReLU(Module):
    """x above zero, a random slope times x below.

    Example:
        >>> RReLU()(torch.ones(1))
        tensor([1.])
    """

    def __init__(
        self,
        lower: float = 1.0 / 8,
        upper: float = 1.0 / 3,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (
            ", inplace=True" if self.inplace else ""
        )


class ELU(Module):
    """x above zero, alpha * (exp(x) - 1) below.

    Example:
        >>> ELU()(torch.ones(1))
        tensor([1.])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(Module):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    Example:
        >>> CELU()(torch.ones(1))
        tensor([1.])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class SELU(InPlaceActivation):
    """The self-normalizing scale * elu(x, alpha).

    Example:
        >>> SELU()(torch.zeros(1))
        tensor([0.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.selu(input, inplace=self.inplace)


class Hardswish(InPlaceActivation):
    """x * relu6(x + 3) / 6.

    Example:
        >>> Hardswish()(torch.zeros(1))
        tensor([0.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardswish(input, inplace=self.inplace)


class Hardsigmoid(InPlaceActivation):
    """relu6(x + 3) / 6.

    Example:
        >>> Hardsigmoid()(torch.zeros(1))
        tensor([0.5000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardsigmoid(input, inplace=self.inplace)


class Hardshrink(Module):
    """x, and zero in [-lambd, lambd].

    Example:
        >>> Hardshrink()(torch.tensor([0.2]))
        tensor([0.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """x moved towards zero by lambd.

    Example:
        >>> Softshrink()(torch.ones(1))
        tensor([0.5000])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Threshold(Module):
    """x above threshold, else value.

    Example:
        >>> Threshold(0.0, 9.0)(torch.tensor([-1.0, 1.0]))
        tensor([9., 1.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (
            ", inplace=True" if self.inplace else ""
        )
