"""Unfold, Fold: windows as columns, and the sum of columns back in their places."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.modules.function_layer import FunctionLayer, layer
from rushlight.nn.sizes import Sizes


@layer(F.unfold)
class Unfold(FunctionLayer):
    """The windows of (N, C, H, W) as columns: (N, C * window size, count of windows).

    Example:
        >>> Unfold(2)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 12, 12])
    """

    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1


@layer(F.fold)
class Fold(FunctionLayer):
    """The sum of columns at the places of their windows: the transposed map of Unfold.

    Example:
        >>> Fold((4, 5), 2)(torch.zeros(1, 12, 12)).shape
        torch.Size([1, 3, 4, 5])
    """

    output_size: Sizes
    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1
