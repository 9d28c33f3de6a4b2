"""The layers with a lazy form: their number of input features is that of the first input."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn.modules import batchnorm, conv, instancenorm, linear
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.parameter import UninitializedBuffer, UninitializedParameter
from rushlight.nn.sizes import Sizes

Tensor = torch.Tensor


class LazyLinear(LazyModuleMixin, linear.Linear):
    """Linear with `in_features` from the first input.

    Example:
        >>> layer = LazyLinear(3)
        >>> _ = layer(torch.zeros(2, 5))
        >>> layer
        Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become = linear.Linear

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Do nothing before the first input."""
        if self.in_features != 0 and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Materialize for (..., in_features)."""
        is_new = self.has_uninitialized_params()
        self.in_features = input.size(-1)
        if is_new:
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()


class _LazyConvNd(LazyModuleMixin):
    """A convolution with `in_channels` from the first input."""

    def _make_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Do nothing before the first input."""
        if self.in_channels != 0 and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(  # type: ignore[override]
        self, input: Tensor, *unused: Any, **more: Any
    ) -> None:
        """Materialize for (N, in_channels, ...) or (in_channels, ...)."""
        is_new = self.has_uninitialized_params()
        self.in_channels = self._channels_of(input)
        if not is_new:
            return
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self.weight.materialize(self.weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _channels_of(self, input: Tensor) -> int:
        if input.dim() not in (self.spatial + 1, self.spatial + 2):
            raise RuntimeError(
                f"Expected {self.spatial + 1}D (unbatched) or {self.spatial + 2}D (batched) input "
                f"to {type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.size(-1 - self.spatial)


class _LazyConv(_LazyConvNd):
    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, conv.Conv1d):
    """Conv1d with `in_channels` from the first input."""

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyConv, conv.Conv2d):
    """Conv2d with `in_channels` from the first input.

    Example:
        >>> layer = LazyConv2d(3, kernel_size=2)
        >>> _ = layer(torch.zeros(1, 4, 5, 5))
        >>> layer
        Conv2d(4, 3, kernel_size=(2, 2), stride=(1, 1))
    """

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyConv, conv.Conv3d):
    """Conv3d with `in_channels` from the first input."""

    cls_to_become = conv.Conv3d


class _LazyConvTranspose(_LazyConvNd):
    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, conv.ConvTranspose1d):
    """ConvTranspose1d with `in_channels` from the first input."""

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, conv.ConvTranspose2d):
    """ConvTranspose2d with `in_channels` from the first input."""

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, conv.ConvTranspose3d):
    """ConvTranspose3d with `in_channels` from the first input."""

    cls_to_become = conv.ConvTranspose3d


class _LazyNorm(LazyModuleMixin):
    """A normalization with `num_features` from the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        # Size 0 and no affine part: those would be made with a shape.
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=bias)
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**options)
        if affine and bias:
            self.bias = UninitializedParameter(**options)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = torch.tensor(0, dtype=torch.int64, device=device)

    def reset_parameters(self) -> None:
        """Do nothing before the first input."""
        if self.num_features != 0 and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Materialize for (N, num_features, ...)."""
        is_new = self.has_uninitialized_params()
        self.num_features = input.size(1)
        if is_new:
            for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
                if tensor is not None:
                    tensor.materialize((self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, batchnorm.BatchNorm1d):
    """BatchNorm1d with `num_features` from the first input."""

    cls_to_become = batchnorm.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, batchnorm.BatchNorm2d):
    """BatchNorm2d with `num_features` from the first input.

    Example:
        >>> layer = LazyBatchNorm2d()
        >>> _ = layer(torch.zeros(1, 4, 5, 5))
        >>> layer.weight.shape
        torch.Size([4])
    """

    cls_to_become = batchnorm.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, batchnorm.BatchNorm3d):
    """BatchNorm3d with `num_features` from the first input."""

    cls_to_become = batchnorm.BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, instancenorm.InstanceNorm1d):
    """InstanceNorm1d with `num_features` from the first input."""

    cls_to_become = instancenorm.InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, instancenorm.InstanceNorm2d):
    """InstanceNorm2d with `num_features` from the first input."""

    cls_to_become = instancenorm.InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, instancenorm.InstanceNorm3d):
    """InstanceNorm3d with `num_features` from the first input."""

    cls_to_become = instancenorm.InstanceNorm3d
