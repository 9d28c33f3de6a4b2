"""Join: processes with different numbers of batches. In a group of one nobody ends early.

Hooks are called as for the last process that ends: no `main_hook`, then `post_hook(True)`.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from rushlight.names import getattr_of as _getattr_of
from rushlight.nn.parallel.distributed import DistributedDataParallel

__getattr__ = _getattr_of(__name__)
__all__ = ["JoinHook", "Joinable", "Join"]


class JoinHook:
    """What a joinable object does while others still run, and at the end."""

    def main_hook(self) -> None:
        """Called again and again while other processes still have batches."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once, when all have ended."""


class Joinable(abc.ABC):
    """An object that takes part in `Join`."""

    @abc.abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hooks of this object."""

    @property
    @abc.abstractmethod
    def join_device(self) -> Any:
        """The device of its collectives."""

    @property
    @abc.abstractmethod
    def join_process_group(self) -> Any:
        """The group of its collectives."""


Joinable.register(DistributedDataParallel)


class Join:
    """A context around a loop over batches whose numbers differ between processes.

    Raises ValueError without joinables, and when their groups differ.
    """

    def __init__(
        self, joinables: Sequence[Joinable], enable: bool = True,
        throw_on_early_termination: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if len(joinables) == 0:
            raise ValueError("The join context manager requires at least one joinable")
        if len({id(joinable.join_process_group) for joinable in joinables}) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables, self._enable = list(joinables), enable
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]

    def __enter__(self) -> Join:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if self._enable and kind is None:
            for hook in self._hooks:
                hook.post_hook(True)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """Says that this process has another batch; there is nobody to tell."""
