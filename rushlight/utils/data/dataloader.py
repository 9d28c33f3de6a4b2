"""DataLoader: batches of a dataset, read in this process or by worker processes."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import rushlight as torch
from rushlight.utils.data.collate import default_collate, default_convert
from rushlight.utils.data.dataset import IterableDataset, fetch
from rushlight.utils.data.foreign import _DatasetKind, parts_of
from rushlight.utils.data.pin_memory import pin_memory
from rushlight.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from rushlight.utils.data.worker import Job, get_worker_info
from rushlight.utils.data.workers import WorkerPass, WorkerPool, _BaseDataLoaderIter

__all__ = [
    "_collate_fn_t", "_DatasetKind", "DataLoader", "default_collate", "default_convert",
    "get_worker_info", "_worker_init_fn_t",
]  # fmt: skip

_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]

FIXED_ATTRIBUTES = (
    "batch_size",
    "batch_sampler",
    "sampler",
    "drop_last",
    "dataset",
    "persistent_workers",
)


class EndlessSampler(Sampler[None]):
    """The place of a sampler for an iterable dataset, which has no indices."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """One pass over the data without workers."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader = as_loader(loader)
        self._batches = loader._iterable_batches() if loader._is_iterable else (
            loader._indexed_batches())  # fmt: skip

    def __next__(self) -> Any:
        return self.loader._pinned_if_wanted(next(self._batches))


class _MultiProcessingDataLoaderIter(WorkerPass):
    """One pass over the data with workers, new ones if none are given."""

    def __init__(
        self, loader: Any, pool: WorkerPool | None = None, seed: int | None = None
    ) -> None:
        loader = as_loader(loader)
        if seed is None:
            seed = int(torch.empty((), dtype=torch.int64).random_(generator=loader.generator))
        super().__init__(loader, WorkerPool(loader) if pool is None else pool, seed)


class DataLoader:
    """Iterate over the batches of a dataset.

    Args:
        dataset: with `__getitem__` and `__len__`, or an IterableDataset.
        batch_size: samples in a batch; None gives single samples.
        shuffle, sampler, batch_sampler: the order; of indices, or of whole batches of them.
        num_workers: processes that read; 0 reads in this one.
        collate_fn: makes a batch of a list of samples.
        timeout: seconds to wait for a batch of a worker; 0 waits for ever.
        worker_init_fn: called with its number in each worker, first of all.
        multiprocessing_context: how to start workers: 'fork', 'spawn', 'forkserver', a context.
        prefetch_factor: batches that each worker reads ahead; 2 if None.
        persistent_workers: keep the workers from pass to pass.
        in_order: give the batches in order; else as they come.

    What a sample of a map dataset draws from `random`, `numpy.random` and `torch` in a worker
    depends on the pass and the sample's number in it, not on the number of workers.

    Example:
        >>> [batch.tolist() for batch in DataLoader([1, 2, 3], batch_size=2)]
        [[1, 2], [3]]
    """

    _is_ready = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.persistent_workers = persistent_workers
        self.generator = generator

        self._is_iterable = isinstance(dataset, IterableDataset)
        if self._is_iterable:
            check_iterable_options(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, "
                    "sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle))
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        default = default_convert if batch_sampler is None else default_collate
        self.collate_fn = default if collate_fn is None else collate_fn
        self._pool: WorkerPool | None = None
        self._length_seen: int | None = None
        self._is_ready = True
        warn_of_many_workers(num_workers)

    def _default_sampler(self, shuffle: bool) -> Sampler[Any]:
        if self._is_iterable:
            return EndlessSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse to change what the samplers were made of."""
        if self._is_ready and name in FIXED_ATTRIBUTES:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started; None is the system's way."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._context = checked_context(context, self.num_workers)

    @property
    def _is_batched(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Iterable[Any]:
        """What one task of a worker is taken from: batches of indices, or single ones."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _job(self, worker_id: int) -> Job:
        return Job(
            self.dataset,
            self._is_iterable,
            self._is_batched,
            self.drop_last,
            self.collate_fn,
            self.worker_init_fn,
            worker_id,
            self.num_workers,
        )

    def __iter__(self) -> Iterator[Any]:
        """Start a pass."""
        # One draw per pass, also without workers: equal seeds, equal orders, as in PyTorch.
        draw = torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        if self.num_workers > 0:
            pool = WorkerPool(self) if self._pool is None else self._pool
            self._pool = pool if self.persistent_workers else None
            return _MultiProcessingDataLoaderIter(self, pool, int(draw.item()))
        return _SingleProcessDataLoaderIter(self)

    def _forget_workers(self) -> None:
        """Start new workers for the next pass."""
        self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle all but the worker processes."""
        return {**self.__dict__, "_pool": None}

    def _indexed_batches(self) -> Iterator[Any]:
        if self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
        else:
            for indices in self.batch_sampler:
                yield self.collate_fn(fetch(self.dataset, indices))

    def _iterable_batches(self) -> Iterator[Any]:
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        batch = [*itertools.islice(samples, self.batch_size)]
        while len(batch) == self.batch_size or (batch and not self.drop_last):
            yield self.collate_fn(batch)
            batch = [*itertools.islice(samples, self.batch_size)]

    def _pinned_if_wanted(self, batch: Any) -> Any:
        return pin_memory(batch) if self.pin_memory and has_gpu() else batch

    def __len__(self) -> int:
        """Return the number of batches."""
        if not self._is_iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        length = self._length_seen = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


def as_loader(loader: Any) -> DataLoader:
    """The loader; one of another package as a DataLoader."""
    return loader if isinstance(loader, DataLoader) else DataLoader(**parts_of(loader))


def has_gpu() -> bool:
    """Say if there is a GPU; without one pinned memory is of no use."""
    return torch.accelerator.is_available()


def check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    """Raise for options about worker processes that do not fit."""
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; "
            "use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > "
            "0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def checked_context(context: Any, num_workers: int) -> Any:
    """A context of multiprocessing from its name or itself."""
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading "
            f"(num_workers > 0), but got num_workers={num_workers}"
        )
    if isinstance(context, str):
        valid = multiprocessing.get_all_start_methods()
        if context not in valid:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{valid!r}, but got multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={context}"
        )
    return context


def warn_of_many_workers(num_workers: int) -> None:
    """Warn when there are more workers than processors."""
    if hasattr(os, "sched_getaffinity"):
        most = len(os.sched_getaffinity(0))
    else:
        most = os.cpu_count() or num_workers
    if num_workers > most:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested "
            f"max number of worker in current system is {most}, which is smaller than what this "
            "DataLoader is going to create. Please be aware that excessive worker creation might "
            "get DataLoader running slow or even freeze, lower the worker number to avoid "
            "potential slowness/freeze if necessary.",
            stacklevel=3,
        )


def check_iterable_options(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """Raise for options that need indices."""
    prefix = "DataLoader with IterableDataset: expected unspecified"
    if shuffle not in (False, None):
        raise ValueError(f"{prefix} shuffle option, but got shuffle={shuffle}")
    if sampler is not None:
        raise ValueError(f"{prefix} sampler option, but got sampler={sampler}")
    if batch_sampler is not None:
        raise ValueError(f"{prefix} batch_sampler option, but got batch_sampler={batch_sampler}")
