"""DataParallel: the wrapper that splits batches over the devices of one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.nn.modules.module import Module
from rushlight.nn.parallel.parallel_apply import parallel_apply
from rushlight.nn.parallel.scatter_gather import gather, scatter_kwargs


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


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None,
    output_device: Any = None, dim: int = 0, module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """The module's result for a batch that is cut over the devices, joined again.

    >>> import rushlight as torch
    >>> data_parallel(torch.nn.ReLU(), torch.tensor([[1.0], [-1.0]])).tolist()
    [[1.0], [0.0]]
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    devices = list(device_ids or ["cpu"])
    parts, named = scatter_kwargs(args, module_kwargs, devices, dim)
    results = parallel_apply([module] * len(parts), parts, named)
    return results[0] if len(results) == 1 else gather(results, output_device or "cpu", dim)
