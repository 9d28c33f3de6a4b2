"""Instance normalization: every channel of every sample on its own."""

from __future__ import annotations

import warnings
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.batchnorm import _NormBase

OLD_CHECKPOINT = (
    "Unexpected running stats buffer(s) {names} for {klass} with track_running_stats=False. If "
    "state_dict is a checkpoint saved before 0.4.0, this may be expected because {klass} does not "
    "track running stats by default since 0.4.0. Please remove these keys from state_dict. If the "
    "running stats are actually needed, instead set track_running_stats=True in {klass} to enable "
    "them. See the documentation of {klass} for details."
)


class _InstanceNorm(_NormBase):
    """Subclasses say how many dimensions a sample without a batch has."""

    unbatched_dim: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    @property
    def dims_allowed(self) -> tuple[int, ...]:  # type: ignore[override]
        """Without and with a batch."""
        return (self.unbatched_dim, self.unbatched_dim + 1)

    def _normalized(self, input: torch.Tensor) -> torch.Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        channel_dim = input.dim() - self.unbatched_dim
        if input.size(channel_dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channel_dim} to match num_features "
                    f"({self.num_features}), but got: {input.size(channel_dim)}."
                )
            warnings.warn(
                f"input's size at dim={channel_dim} does not match num_features. You can silence "
                "this warning by not passing in num_features, which is not used because "
                "affine=False",
                stacklevel=2,
            )
        if channel_dim == 0:
            return self._normalized(input.unsqueeze(0)).squeeze(0)
        return self._normalized(input)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("version", None)
        if version is None and not self.track_running_stats:
            old = [prefix + name for name in ("running_mean", "running_var")]
            old = [key for key in old if key in state_dict]
            if old:
                names = " and ".join(f'"{key}"' for key in old)
                error_msgs.append(OLD_CHECKPOINT.format(names=names, klass=type(self).__name__))
                for key in old:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalize each channel of each sample of (N, C, L) or (C, L).

    Example:
        >>> InstanceNorm1d(3)(torch.zeros(4, 3, 5)).shape
        torch.Size([4, 3, 5])
    """

    unbatched_dim = 2


class InstanceNorm2d(_InstanceNorm):
    """Normalize each channel of each sample of (N, C, H, W) or (C, H, W).

    Example:
        >>> InstanceNorm2d(3)(torch.zeros(4, 3, 5, 5)).shape
        torch.Size([4, 3, 5, 5])
    """

    unbatched_dim = 3


class InstanceNorm3d(_InstanceNorm):
    """Normalize each channel of each sample of (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> InstanceNorm3d(3)(torch.zeros(4, 3, 2, 2, 2)).shape
        torch.Size([4, 3, 2, 2, 2])
    """

    unbatched_dim = 4
