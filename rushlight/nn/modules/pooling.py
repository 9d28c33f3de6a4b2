"""Poolings over one, two and three dimensions."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.function_layer import FunctionLayer, layer
from rushlight.nn.sizes import Sizes, sizes_of


class _Windowed(FunctionLayer):
    """A pooling with a stride: by default windows lie side by side."""

    def __post_init__(self) -> None:
        self.stride = self.kernel_size if self.stride is None else self.stride


@layer()
class _MaxPoolNd(_Windowed):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    dilation: Sizes = 1
    return_indices: bool = False
    ceil_mode: bool = False
    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


@layer(F.max_pool1d)
class MaxPool1d(_MaxPoolNd):
    """The largest value of each window of (N, C, L) or (C, L).

    Example:
        >>> MaxPool1d(2)(torch.zeros(1, 1, 4)).shape
        torch.Size([1, 1, 2])
    """


@layer(F.max_pool2d)
class MaxPool2d(_MaxPoolNd):
    """The largest value of each window of (N, C, H, W) or (C, H, W).

    Example:
        >>> MaxPool2d(2)(torch.zeros(1, 1, 4, 4)).shape
        torch.Size([1, 1, 2, 2])
    """


@layer(F.max_pool3d)
class MaxPool3d(_MaxPoolNd):
    """The largest value of each window of (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> MaxPool3d(2)(torch.zeros(1, 1, 4, 4, 4)).shape
        torch.Size([1, 1, 2, 2, 2])
    """


@layer(F.avg_pool1d)
class AvgPool1d(_Windowed):
    """The mean of each window of (N, C, L) or (C, L).

    Example:
        >>> AvgPool1d(2)(torch.tensor([[[1.0, 3.0]]]))
        tensor([[[2.]]])
    """

    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    shown = ("kernel_size", "stride", "padding")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.shown:
            setattr(self, name, sizes_of(getattr(self, name), 1))


@layer()
class _AvgPoolNd(_Windowed):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None
    shown = ("kernel_size", "stride", "padding")


@layer(F.avg_pool2d)
class AvgPool2d(_AvgPoolNd):
    """The mean of each window of (N, C, H, W) or (C, H, W).

    Example:
        >>> AvgPool2d(2)(torch.zeros(1, 1, 4, 4)).shape
        torch.Size([1, 1, 2, 2])
    """


@layer(F.avg_pool3d)
class AvgPool3d(_AvgPoolNd):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> AvgPool3d(2)(torch.zeros(1, 1, 4, 4, 4)).shape
        torch.Size([1, 1, 2, 2, 2])
    """


@layer()
class _AdaptiveAvgPoolNd(FunctionLayer):
    output_size: Any


@layer(F.adaptive_avg_pool1d)
class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of windows chosen so that (N, C, L) gets a given length.

    Example:
        >>> AdaptiveAvgPool1d(2)(torch.zeros(1, 3, 5)).shape
        torch.Size([1, 3, 2])
    """


@layer(F.adaptive_avg_pool2d)
class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of windows chosen so that (N, C, H, W) gets a given size; None keeps a size.

    Example:
        >>> AdaptiveAvgPool2d(1)(torch.zeros(1, 3, 5, 7)).shape
        torch.Size([1, 3, 1, 1])
    """


@layer(F.adaptive_avg_pool3d)
class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of windows chosen so that (N, C, D, H, W) gets a given size; None keeps a size.

    Example:
        >>> AdaptiveAvgPool3d((1, None, 2))(torch.zeros(1, 3, 5, 7, 4)).shape
        torch.Size([1, 3, 1, 7, 2])
    """


@layer()
class _AdaptiveMaxPoolNd(FunctionLayer):
    output_size: Any
    return_indices: bool = False
    shown = ("output_size",)


@layer(F.adaptive_max_pool1d)
class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest values of windows chosen so that (N, C, L) gets a given length.

    Example:
        >>> AdaptiveMaxPool1d(2)(torch.zeros(1, 3, 5)).shape
        torch.Size([1, 3, 2])
    """


@layer(F.adaptive_max_pool2d)
class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest values of windows chosen so that (N, C, H, W) gets a given size.

    Example:
        >>> AdaptiveMaxPool2d(1)(torch.zeros(1, 3, 5, 7)).shape
        torch.Size([1, 3, 1, 1])
    """


@layer(F.adaptive_max_pool3d)
class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest values of windows chosen so that (N, C, D, H, W) gets a given size.

    Example:
        >>> AdaptiveMaxPool3d(1)(torch.zeros(1, 3, 5, 7, 4)).shape
        torch.Size([1, 3, 1, 1, 1])
    """


@layer()
class _LPPoolNd(FunctionLayer):
    norm_type: float
    kernel_size: Sizes
    stride: Sizes | None = None
    ceil_mode: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        norm = float(self.norm_type)
        return self.function(input, norm, self.kernel_size, self.stride, self.ceil_mode)


@layer(F.lp_pool1d)
class LPPool1d(_LPPoolNd):
    """The p-norm of each window of (N, C, L) or (C, L).

    Example:
        >>> LPPool1d(2, 2)(torch.tensor([[[3.0, 4.0]]]))
        tensor([[[5.]]])
    """


@layer(F.lp_pool2d)
class LPPool2d(_LPPoolNd):
    """The p-norm of each window of (N, C, H, W) or (C, H, W).

    Example:
        >>> LPPool2d(1, 2)(torch.ones(1, 1, 2, 2))
        tensor([[[[4.]]]])
    """


@layer(F.lp_pool3d)
class LPPool3d(_LPPoolNd):
    """The p-norm of each window of (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> LPPool3d(1, 2)(torch.ones(1, 1, 2, 2, 2))
        tensor([[[[[8.]]]]])
    """


@layer()
class _MaxUnpoolNd(_Windowed):
    """The partial inverse of MaxPool: values go back to their places, all else is zero."""

    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    spatial = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.settings:
            setattr(self, name, sizes_of(getattr(self, name), self.spatial))

    def forward(  # type: ignore[override]
        self, input: torch.Tensor, indices: torch.Tensor, output_size: list[int] | None = None
    ) -> torch.Tensor:
        return self.function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


@layer(F.max_unpool1d)
class MaxUnpool1d(_MaxUnpoolNd):
    """Put the values of MaxPool1d back to the indices that it returned.

    Example:
        >>> MaxUnpool1d(2)(torch.tensor([[[5.0]]]), torch.tensor([[[1]]]))
        tensor([[[0., 5.]]])
    """

    spatial = 1


@layer(F.max_unpool2d)
class MaxUnpool2d(_MaxUnpoolNd):
    """Put the values of MaxPool2d back to the indices that it returned.

    Example:
        >>> MaxUnpool2d(2)(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1).long()).shape
        torch.Size([1, 1, 2, 2])
    """


@layer(F.max_unpool3d)
class MaxUnpool3d(_MaxUnpoolNd):
    """Put the values of MaxPool3d back to the indices that it returned.

    Example:
        >>> MaxUnpool3d(2)(torch.ones(1, 1, 1, 1, 1), torch.zeros(1, 1, 1, 1, 1).long()).shape
        torch.Size([1, 1, 2, 2, 2])
    """

    spatial = 3


@layer()
class _FractionalMaxPool(FunctionLayer):
    """Windows of one size at random steps, so that the output has a given size or ratio."""

    kernel_size: Sizes
    output_size: Sizes | None = None
    output_ratio: float | tuple[float, ...] | None = None
    return_indices: bool = False
    _random_samples: torch.Tensor | None = None
    shown = ()
    spatial = 2

    def __post_init__(self) -> None:
        for name in ("kernel_size", "output_size", "output_ratio"):
            value = getattr(self, name)
            setattr(self, name, None if value is None else sizes_of(value, self.spatial))
        self.register_buffer("_random_samples", self.__dict__.pop("_random_samples"))
        name = type(self).__name__
        if self.output_size is None and self.output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if self.output_size is not None and self.output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            shown = self.output_ratio[0] if len({*self.output_ratio}) == 1 else self.output_ratio
            raise ValueError(f"output_ratio must be between 0 and 1 (got {shown})")


@layer(F.fractional_max_pool2d)
class FractionalMaxPool2d(_FractionalMaxPool):
    """Max pooling of (N, C, H, W) with random steps (Graham 2014).

    Example:
        >>> FractionalMaxPool2d(2, output_size=3)(torch.zeros(1, 1, 5, 5)).shape
        torch.Size([1, 1, 3, 3])
    """


@layer(F.fractional_max_pool3d)
class FractionalMaxPool3d(_FractionalMaxPool):
    """Max pooling of (N, C, D, H, W) with random steps.

    Example:
        >>> FractionalMaxPool3d(2, output_size=2)(torch.zeros(1, 1, 4, 4, 4)).shape
        torch.Size([1, 1, 2, 2, 2])
    """

    spatial = 3
