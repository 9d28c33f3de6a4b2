"""ZeroPad2d, ConstantPad2d, PixelShuffle: modules that rearrange the pixels of images."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.module import Module


class ConstantPad2d(Module):
    """Add borders (left, right, top, bottom) filled with a value.

    Example:
        >>> ConstantPad2d(1, 2.0)(torch.zeros(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__()
        self.padding = (padding,) * 4 if isinstance(padding, int) else tuple(padding)
        self.value = value

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ZeroPad2d(ConstantPad2d):
    """Add borders of zeros.

    Example:
        >>> ZeroPad2d((1, 0, 0, 0))(torch.ones(1, 1, 1))
        tensor([[[0., 1.]]])
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class PixelShuffle(Module):
    """Turn groups of channels into finer pixels.

    Example:
        >>> PixelShuffle(2)(torch.zeros(1, 4, 2, 2)).shape
        torch.Size([1, 1, 4, 4])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"
