"""DistributedSampler: the part of the indices that one of several processes reads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import rushlight as torch
from rushlight.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index of one common order, beginning with number `rank`.

    All processes get equally many: the first indices are repeated, or with `drop_last` the last
    ones left out. Call `set_epoch` before each epoch, or the order stays the same.

    Example:
        >>> list(DistributedSampler("abcde", num_replicas=2, rank=1, shuffle=False))
        [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            distributed = require_distributed()
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        length = len(dataset)
        if drop_last and length % num_replicas != 0:
            self.num_samples = length // num_replicas
        else:
            self.num_samples = math.ceil(length / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        indices = [*range(len(self.dataset))]
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            indices = torch.randperm(len(indices), generator=generator).tolist()
        whole = [*itertools.islice(itertools.cycle(indices), self.total_size)]
        if len(whole) != self.total_size:
            raise AssertionError(
                f"Number of indices ({len(whole)}) does not match total_size ({self.total_size})"
            )
        return iter(whole[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Make the order of this epoch another one."""
        self.epoch = epoch


def require_distributed() -> Any:
    """The module of process groups, where one was started."""
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        raise RuntimeError("Requires distributed package to be available")
    if not distributed.is_initialized():
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return distributed
