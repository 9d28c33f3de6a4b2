"""ChannelShuffle."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.modules.function_layer import FunctionLayer, layer


@layer(F.channel_shuffle)
class ChannelShuffle(FunctionLayer):
    """Take one channel of each group in turn.

    Example:
        >>> ChannelShuffle(2)(torch.arange(4.0).view(1, 4, 1, 1)).flatten()
        tensor([0., 2., 1., 3.])
    """

    groups: int
