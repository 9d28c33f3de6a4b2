"""DistributedDataParallel: the wrapper that makes gradients equal over the processes of a group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import rushlight as torch
from rushlight.nn.modules.module import Module


class DistributedDataParallel(Module):
    """The module under the name `module`. A group has one process here, so gradients are equal as
    they are; a group must have been made first, as in PyTorch.

    device_ids, output_device, bucket_cap_mb, find_unused_parameters, gradient_as_bucket_view,
    static_graph and the other settings of how to send are accepted: nothing is sent.
    Raises ValueError without a process group, RuntimeError when nothing needs a gradient.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if process_group is None and not torch.distributed.is_initialized():
            raise ValueError(
                "Default process group has not been initialized, please make sure to call "
                "init_process_group."
            )
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        self.module = module
        self.dim, self.broadcast_buffers = dim, broadcast_buffers
        self.process_group = process_group or torch.distributed.group.WORLD
        self.device_ids, self.output_device = device_ids, output_device
        self.device = next(module.parameters()).device
        self.find_unused_parameters = settings.get("find_unused_parameters", False)
        self.static_graph = settings.get("static_graph", False)
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are added up without being sent."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Inside, processes may have different numbers of batches; there is one."""
        yield

    def join_hook(self, **kwargs: Any) -> Any:
        """For `Join`: nothing to do for other processes."""
        return torch.distributed.algorithms.join.JoinHook()

    @property
    def join_device(self) -> Any:
        """The device of the collectives."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The group of the collectives."""
        return self.process_group

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Accepted: no gradient is sent, so no hook is called."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
