"""DataParallel: the wrapper that splits batches over the devices of one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.nn.modules.module import Module


class DataParallel(Module):
    """The module itself, under the name `module`: there is one device to run it on.

    Example:
        >>> [*DataParallel(Module()).named_modules()][1][0]
        'module'
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise NotImplementedError(
                f"DataParallel: device_ids={list(device_ids)}: more than one device is not "
                "supported"
            )
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self.module(*inputs, **kwargs)
