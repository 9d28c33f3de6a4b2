"""Losses that are computed together with the layer before them."""

from rushlight.losses.linear_cross_entropy import linear_cross_entropy
from rushlight.losses.options import LinearCrossEntropyOptions

__all__ = ["LinearCrossEntropyOptions", "linear_cross_entropy"]
