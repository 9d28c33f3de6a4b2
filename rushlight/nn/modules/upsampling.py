"""Upsample and its two old special cases."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.function_layer import FunctionLayer, layer


@layer()
class Upsample(FunctionLayer):
    """Resize to `size` or by `scale_factor`.

    Modes: 'nearest', 'linear' (N, C, L), 'bilinear' and 'bicubic' (N, C, H, W), 'trilinear'
    (N, C, D, H, W), as in `F.interpolate`.

    Example:
        >>> Upsample(scale_factor=2)(torch.tensor([[[1.0, 2.0]]]))
        tensor([[[1., 1., 2., 2.]]])
    """

    size: Any = None
    scale_factor: Any = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def __post_init__(self) -> None:
        self.name = type(self).__name__
        factor = self.scale_factor
        if isinstance(factor, tuple):
            self.scale_factor = tuple(float(f) for f in factor)
        else:
            self.scale_factor = float(factor) if factor else None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.interpolate(input, **self.given())

    def extra_repr(self) -> str:
        shown = "size" if self.scale_factor is None else "scale_factor"
        return f"{shown}={getattr(self, shown)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of images with the mode 'nearest'.

    Example:
        >>> UpsamplingNearest2d(scale_factor=2)(torch.zeros(1, 1, 2, 2)).shape
        torch.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of images with the mode 'bilinear' and corners that keep their places.

    Example:
        >>> UpsamplingBilinear2d(scale_factor=2)(torch.zeros(1, 1, 2, 2)).shape
        torch.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
