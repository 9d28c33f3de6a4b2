"""PixelShuffle, PixelUnshuffle: channels to finer pixels, and back."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.modules.function_layer import FunctionLayer, layer


@layer(F.pixel_shuffle)
class PixelShuffle(FunctionLayer):
    """Turn groups of channels into finer pixels: (*, C*r*r, H, W) -> (*, C, H*r, W*r).

    Example:
        >>> PixelShuffle(2)(torch.zeros(1, 4, 2, 2)).shape
        torch.Size([1, 1, 4, 4])
    """

    upscale_factor: int


@layer(F.pixel_unshuffle)
class PixelUnshuffle(FunctionLayer):
    """Turn blocks of pixels into channels: (*, C, H*r, W*r) -> (*, C*r*r, H, W).

    Example:
        >>> PixelUnshuffle(2)(torch.zeros(1, 1, 4, 4)).shape
        torch.Size([1, 4, 2, 2])
    """

    downscale_factor: int
