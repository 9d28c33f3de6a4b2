"""The GradScaler of models whose gradients lie over several processes."""

from __future__ import annotations

from typing import Any

from rushlight import names as _names
from rushlight.amp.grad_scaler import GradScaler, OptState
from rushlight.distributed.process_group import ProcessGroup

__getattr__ = _names.getattr_of(__name__)
__all__ = ["ShardedGradScaler", "GradScaler", "OptState", "ProcessGroup"]


class ShardedGradScaler(GradScaler):
    """A GradScaler; what one process finds, all of the group find: there is one.

    device: "cpu" scales; "cuda" does not here, as where there is no GPU.
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
        growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True,
        process_group: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            device, init_scale=init_scale, backoff_factor=backoff_factor,
            growth_factor=growth_factor, growth_interval=growth_interval, enabled=enabled,
        )  # fmt: skip
        self.process_group = process_group
