"""ZeroRedundancyOptimizer: each process updates a part of the parameters; one process, all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rushlight.base.errors import NotSupportedError
from rushlight.distributed.algorithms.join import Joinable, JoinHook
from rushlight.distributed.group import require_group
from rushlight.names import getattr_of as _getattr_of
from rushlight.optim.optimizer import Optimizer

__getattr__ = _getattr_of(__name__)
__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer of `optimizer_class` (the attribute `optim`) for this process's parameters.

    defaults: the settings of that class. Raises ValueError without a process group.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    >>> dist.destroy_process_group()
    """

    def __init__(
        self, params: Any, optimizer_class: type[Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        self.process_group = require_group(process_group)
        if overlap_with_ddp:
            raise NotSupportedError("overlap_with_ddp=True: gradients are not sent; use False")
        given = list(params) if isinstance(params, Iterable) else params
        self.optim = optimizer_class(given, **defaults)
        super().__init__(self.optim.param_groups, self.optim.defaults)
        self.param_groups = self.optim.param_groups
        self.state = self.optim.state
        self.world_size, self.rank, self.global_rank = self.process_group.size(), 0, 0

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """One update; gives what `closure` gives."""
        return self.optim.step(closure, **kwargs) if closure else self.optim.step(**kwargs)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """More parameters."""
        if hasattr(self, "world_size"):
            self.optim.add_param_group(param_group)
        else:
            super().add_param_group(param_group)

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state together on process `to`: it is."""
        if to not in self.process_group.ranks:
            raise ValueError(f"consolidate_state_dict: rank {to} is not in the group")

    def state_dict(self) -> dict[str, Any]:
        """The state of the whole."""
        return self.optim.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state of the whole."""
        self.optim.load_state_dict(state_dict)
        self.param_groups, self.state = self.optim.param_groups, self.optim.state

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Nothing to do for others."""
        return JoinHook()

    @property
    def join_device(self) -> Any:
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        return self.process_group
