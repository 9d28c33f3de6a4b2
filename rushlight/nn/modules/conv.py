"""Convolutions and transposed convolutions over one, two and three dimensions."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.sizes import Sizes, sizes_of

PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


class _ConvNd(Module):
    """What all convolutions share; a subclass says over how many dimensions, and which way."""

    spatial = 2
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        steps = sizes_of(stride, self.spatial)
        check_arguments(in_channels, out_channels, steps, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = sizes_of(kernel_size, self.spatial)
        self.stride = steps
        self.padding = padding if isinstance(padding, str) else sizes_of(padding, self.spatial)
        self.dilation = sizes_of(dilation, self.spatial)
        self.output_padding = (0,) * self.spatial
        self.groups = groups
        self.padding_mode = padding_mode
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(torch.empty(self.weight_shape(), **options))
        start = Parameter(torch.empty(out_channels, **options)) if bias else None
        self.register_parameter("bias", start)
        self.reset_parameters()

    def weight_shape(self) -> tuple[int, ...]:
        """Channels, those of one group, and the window."""
        channels = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        return (*channels, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from [-1/sqrt(fan_in), 1/sqrt(fan_in)]."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(
        self, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """Convolve with other weights; layers that change them call this."""
        padding = self.padding
        if self.padding_mode != "zeros":
            amounts = self._reversed_padding_repeated_twice
            input = F.pad(input, amounts, mode=self.padding_mode)
            padding = 0
        convolve = getattr(F, f"conv{self.spatial}d")
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    @property
    def _reversed_padding_repeated_twice(self) -> list[int]:
        """Return the amounts for `F.pad`: last dimension first, left then right."""
        amounts: list[int] = []
        for dim in reversed(range(self.spatial)):
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
        zeros, ones = (0,) * self.spatial, (1,) * self.spatial
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text + (
            f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else ""
        )


class Conv1d(_ConvNd):
    """One-dimensional convolution over (N, C, L) or (C, L).

    Example:
        >>> Conv1d(3, 8, kernel_size=3, padding=1)(torch.zeros(1, 3, 5)).shape
        torch.Size([1, 8, 5])
    """

    spatial = 1


class Conv2d(_ConvNd):
    """Two-dimensional convolution over (N, C, H, W) or (C, H, W).

    Example:
        >>> Conv2d(3, 8, kernel_size=3, padding=1)(torch.zeros(1, 3, 5, 5)).shape
        torch.Size([1, 8, 5, 5])
    """


class Conv3d(_ConvNd):
    """Three-dimensional convolution over (N, C, D, H, W) or (C, D, H, W)."""

    spatial = 3


class _ConvTransposeNd(_ConvNd):
    """The gradient of a convolution with respect to its input, as a layer."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {self.__class__.__name__}'
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        self.output_padding = sizes_of(output_padding, self.spatial)

    def forward(self, input: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        convolve = getattr(F, f"conv_transpose{self.spatial}d")
        extra = self.output_padding
        if output_size is not None:
            extra = self._extra_for(input, output_size)
        return convolve(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _extra_for(self, input: torch.Tensor, output_size: list[int]) -> tuple[int, ...]:
        """The output_padding that gives this size."""
        wanted = list(output_size)[-self.spatial :]
        have = input.shape[-self.spatial :]
        least = [
            (n - 1) * step - 2 * pad + gap * (kernel - 1) + 1
            for n, step, pad, gap, kernel in zip(
                have, self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        most = [low + step - 1 for low, step in zip(least, self.stride, strict=True)]
        for size, low, high in zip(wanted, least, most, strict=True):
            if not low <= size <= high:
                raise ValueError(
                    f"requested an output size of {wanted}, but valid sizes range from {least} to "
                    f"{most} (for an input of {list(have)})"
                )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))


_ConvTransposeMixin = _ConvTransposeNd  # its old name


class ConvTranspose1d(_ConvTransposeNd):
    """One-dimensional transposed convolution over (N, C, L) or (C, L)."""

    spatial = 1


class ConvTranspose2d(_ConvTransposeNd):
    """Two-dimensional transposed convolution over (N, C, H, W) or (C, H, W).

    Example:
        >>> ConvTranspose2d(8, 3, kernel_size=2, stride=2)(torch.zeros(1, 8, 5, 5)).shape
        torch.Size([1, 3, 10, 10])
    """


class ConvTranspose3d(_ConvTransposeNd):
    """Three-dimensional transposed convolution over (N, C, D, H, W) or (C, D, H, W)."""

    spatial = 3


def check_arguments(
    in_channels: int,
    out_channels: int,
    stride: tuple[int, ...],
    padding: str | Sizes,
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
