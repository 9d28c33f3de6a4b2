"""Batch normalization: BatchNorm1d, 2d, 3d and SyncBatchNorm.

`_NormBase` holds what they share with InstanceNorm: the affine part and the running statistics.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.affine import AffineModule
from rushlight.nn.modules.module import Module

RUNNING = ("running_mean", "running_var", "num_batches_tracked")


class _NormBase(AffineModule):
    """Weight, bias and running statistics of channels; subclasses say which inputs they take."""

    # Version 2 added num_batches_tracked; older state dicts load without it.
    _version = 2
    dims_allowed: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.register_affine(num_features, affine, affine and bias, device, dtype)
        options = {"device": device, "dtype": dtype}
        start: dict[str, Any] = dict.fromkeys(RUNNING)
        if track_running_stats:
            start["running_mean"] = torch.zeros(num_features, **options)
            start["running_var"] = torch.ones(num_features, **options)
            start["num_batches_tracked"] = torch.tensor(0, dtype=torch.int64, device=device)
        for name, value in start.items():
            self.register_buffer(name, value)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Start as plain normalization: weight 1, bias 0, no batches seen."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() not in self.dims_allowed:
            allowed = " or ".join(f"{count}D" for count in self.dims_allowed)
            raise ValueError(f"expected {allowed} input (got {input.dim()}D input)")

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            has_count = count is not None and count.device.type != "meta"
            state_dict[key] = count if has_count else torch.tensor(0, dtype=torch.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    """Normalize each channel over the batch and all places."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        factor: Any = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean over all batches so far; nobody waits for it
                factor = 1.0 / self.num_batches_tracked.double()
        uses_buffers = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if uses_buffers else None,
            self.running_var if uses_buffers else None,
            self.weight,
            self.bias,
            self.training or (self.running_mean is None and self.running_var is None),
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalize each channel of (N, C) or (N, C, L) over all other dimensions.

    Example:
        >>> BatchNorm1d(3)(torch.zeros(4, 3)).shape
        torch.Size([4, 3])
    """

    dims_allowed = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalize each channel of (N, C, H, W) over all other dimensions.

    Example:
        >>> BatchNorm2d(3)(torch.zeros(4, 3, 2, 2)).shape
        torch.Size([4, 3, 2, 2])
    """

    dims_allowed = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalize each channel of (N, C, D, H, W) over all other dimensions.

    Example:
        >>> BatchNorm3d(3)(torch.zeros(4, 3, 2, 2, 2)).shape
        torch.Size([4, 3, 2, 2, 2])
    """

    dims_allowed = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm over the batches of all processes; in one process the same as BatchNorm.

    With a process group of several members `forward` raises: their statistics are not joined yet.

    Example:
        >>> SyncBatchNorm(3)(torch.zeros(4, 3, 2)).shape
        torch.Size([4, 3, 2])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if self.training and group_size(self.process_group) > 1:
            raise NotImplementedError("SyncBatchNorm: training with more than one process")
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace every BatchNorm in `module` by a SyncBatchNorm with the same tensors."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias", *module._buffers):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


def group_size(process_group: Any) -> int:
    """How many processes train together; 1 where nothing was started."""
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return distributed.get_world_size(process_group)
