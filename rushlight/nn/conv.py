"""Conv2d."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter

PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}
IntPair = int | tuple[int, int]


def pair(value: Any) -> tuple[int, int]:
    """Return (value, value) for a number."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


class Conv2d(Module):
    """Two-dimensional convolution over (N, C, H, W) or (C, H, W).

    Example:
        >>> Conv2d(3, 8, kernel_size=3, padding=1)(torch.zeros(1, 3, 5, 5)).shape
        torch.Size([1, 8, 5, 5])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntPair,
        stride: IntPair = 1,
        padding: str | IntPair = 0,
        dilation: IntPair = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_arguments(in_channels, out_channels, pair(stride), padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = pair(kernel_size)
        self.stride = pair(stride)
        self.padding = padding if isinstance(padding, str) else pair(padding)
        self.dilation = pair(dilation)
        self.groups = groups
        self.padding_mode = padding_mode
        options = {"device": device, "dtype": dtype}
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(torch.empty(shape, **options))
        start = Parameter(torch.empty(out_channels, **options)) if bias else None
        self.register_parameter("bias", start)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from [-1/sqrt(fan_in), 1/sqrt(fan_in)]."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._pad_amounts(), mode=self.padding_mode)
            padding = 0
        return F.conv2d(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _pad_amounts(self) -> list[int]:
        """Return the amounts for `F.pad`: last dimension first, left then right."""
        amounts: list[int] = []
        for dim in (1, 0):
            if self.padding == "valid":
                amounts += [0, 0]
            elif self.padding == "same":
                total = self.dilation[dim] * (self.kernel_size[dim] - 1)
                amounts += [total // 2, total - total // 2]
            else:
                amounts += [self.padding[dim]] * 2
        return amounts

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0, 0):
            text += f", padding={self.padding}"
        if self.dilation != (1, 1):
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text + (
            f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else ""
        )


def check_arguments(
    in_channels: int,
    out_channels: int,
    stride: tuple[int, int],
    padding: str | IntPair,
    groups: int,
    padding_mode: str,
) -> None:
    """Raise for arguments that do not fit together."""
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}"
            )
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {PADDING_MODES}, but got padding_mode='{padding_mode}'"
        )
