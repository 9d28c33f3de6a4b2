"""Borders around (C, L), (C, H, W) and (C, D, H, W), with or without a batch.

Amounts are given last dimension first: (left, right, top, bottom, front, back).
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.function_layer import FunctionLayer, layer
from rushlight.nn.sizes import Sizes, sizes_of


class _Pad(FunctionLayer):
    """A subclass says in how many dimensions, and with what."""

    spatial: int
    mode: str

    def __post_init__(self) -> None:
        self.padding = sizes_of(self.padding, 2 * self.spatial)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


@layer()
class _ConstantPadNd(_Pad):
    padding: Sizes
    value: float

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Add (left, right) borders filled with a value.

    Example:
        >>> ConstantPad1d(1, 2.0)(torch.zeros(1, 1))
        tensor([[2., 0., 2.]])
    """

    spatial = 1


class ConstantPad2d(_ConstantPadNd):
    """Add (left, right, top, bottom) borders filled with a value.

    Example:
        >>> ConstantPad2d(1, 2.0)(torch.zeros(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """

    spatial = 2


class ConstantPad3d(_ConstantPadNd):
    """Add borders on all six sides filled with a value.

    Example:
        >>> ConstantPad3d(1, 2.0)(torch.zeros(1, 2, 2, 2)).shape
        torch.Size([1, 4, 4, 4])
    """

    spatial = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ZeroPad1d(_ZeroPad):
    """Add (left, right) borders of zeros.

    Example:
        >>> ZeroPad1d((1, 0))(torch.ones(1, 1))
        tensor([[0., 1.]])
    """

    spatial = 1


class ZeroPad2d(_ZeroPad):
    """Add (left, right, top, bottom) borders of zeros.

    Example:
        >>> ZeroPad2d((1, 0, 0, 0))(torch.ones(1, 1, 1))
        tensor([[[0., 1.]]])
    """

    spatial = 2


class ZeroPad3d(_ZeroPad):
    """Add borders of zeros on all six sides.

    Example:
        >>> ZeroPad3d(1)(torch.ones(1, 1, 1, 1)).shape
        torch.Size([1, 3, 3, 3])
    """

    spatial = 3


@layer()
class _CopyPad(_Pad):
    """Borders filled from the inside."""

    padding: Sizes


class ReflectionPad1d(_CopyPad):
    """Add (left, right) borders that mirror the inside, without repeating the edge.

    Example:
        >>> ReflectionPad1d(1)(torch.tensor([[1.0, 2.0]]))
        tensor([[2., 1., 2., 1.]])
    """

    spatial, mode = 1, "reflect"


class ReflectionPad2d(_CopyPad):
    """Add (left, right, top, bottom) borders that mirror the inside.

    Example:
        >>> ReflectionPad2d(1)(torch.zeros(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """

    spatial, mode = 2, "reflect"


class ReflectionPad3d(_CopyPad):
    """Add borders on all six sides that mirror the inside.

    Example:
        >>> ReflectionPad3d(1)(torch.zeros(1, 2, 2, 2)).shape
        torch.Size([1, 4, 4, 4])
    """

    spatial, mode = 3, "reflect"


class ReplicationPad1d(_CopyPad):
    """Add (left, right) borders that repeat the edge.

    Example:
        >>> ReplicationPad1d(1)(torch.tensor([[1.0, 2.0]]))
        tensor([[1., 1., 2., 2.]])
    """

    spatial, mode = 1, "replicate"


class ReplicationPad2d(_CopyPad):
    """Add (left, right, top, bottom) borders that repeat the edge.

    Example:
        >>> ReplicationPad2d(1)(torch.zeros(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """

    spatial, mode = 2, "replicate"


class ReplicationPad3d(_CopyPad):
    """Add borders on all six sides that repeat the edge.

    Example:
        >>> ReplicationPad3d(1)(torch.zeros(1, 2, 2, 2)).shape
        torch.Size([1, 4, 4, 4])
    """

    spatial, mode = 3, "replicate"


class _CircularPadNd(_CopyPad):
    mode = "circular"

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.dim() not in (self.spatial + 1, self.spatial + 2):
            raise ValueError(
                f"expected {self.spatial + 1}D or {self.spatial + 2}D input "
                f"(got {input.dim()}D input)"
            )
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Add (left, right) borders that go round to the other end.

    Example:
        >>> CircularPad1d((1, 0))(torch.tensor([[1.0, 2.0]]))
        tensor([[2., 1., 2.]])
    """

    spatial = 1


class CircularPad2d(_CircularPadNd):
    """Add (left, right, top, bottom) borders that go round to the other end.

    Example:
        >>> CircularPad2d(1)(torch.zeros(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """

    spatial = 2


class CircularPad3d(_CircularPadNd):
    """Add borders on all six sides that go round to the other end.

    Example:
        >>> CircularPad3d(1)(torch.zeros(1, 2, 2, 2)).shape
        torch.Size([1, 4, 4, 4])
    """

    spatial = 3
