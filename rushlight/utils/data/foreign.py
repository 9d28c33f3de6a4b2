"""Loaders of other packages: they have the parts of a DataLoader, and give themselves to the
iterators of this one (fastai does)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight.utils.data.dataset import IterableDataset, fetch


class _BaseDatasetFetcher:
    """Batches of a dataset, one for each entry of an index sampler."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Callable[..., Any], drop_last: bool
    ) -> None:
        self.dataset, self.auto_collation = dataset, auto_collation
        self.collate_fn, self.drop_last = collate_fn, drop_last


class _MapDatasetFetcher(_BaseDatasetFetcher):
    def fetch(self, possibly_batched_index: Any) -> Any:
        """The sample, or the batch of samples, of an index or of several."""
        index = possibly_batched_index
        samples = fetch(self.dataset, index) if self.auto_collation else self.dataset[index]
        return self.collate_fn(samples)


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.dataset_iter, self.ended = iter(self.dataset), False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The next sample, or the next ones, as many as there are indices."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        wanted = list(possibly_batched_index)
        samples = [sample for _, sample in zip(wanted, self.dataset_iter, strict=False)]
        self.ended = len(samples) < len(wanted)
        if not samples or (self.ended and self.drop_last):
            raise StopIteration
        return self.collate_fn(samples)


class _DatasetKind:
    """How a dataset is read: by index, or one sample after the other."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> _BaseDatasetFetcher:
        """What gives batches of `dataset`."""
        made = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


class Stream(IterableDataset[Any]):
    """Anything that can be iterated, as a dataset; its other attributes are there too."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source)

    def __getattr__(self, name: str) -> Any:
        if name == "source":
            raise AttributeError(name)
        return getattr(self.source, name)


def parts_of(loader: Any) -> dict[str, Any]:
    """The arguments for a DataLoader that gives what `loader` would give."""
    is_stream = loader._dataset_kind == _DatasetKind.Iterable
    workers = loader.num_workers
    found = {
        "dataset": Stream(loader.dataset) if is_stream else loader.dataset,
        "num_workers": workers, "collate_fn": loader.collate_fn, "timeout": loader.timeout,
        "pin_memory": loader.pin_memory, "worker_init_fn": loader.worker_init_fn,
        "generator": loader.generator,
        "prefetch_factor": loader.prefetch_factor if workers else None,
    }  # fmt: skip
    if not loader._auto_collation:
        return {**found, "batch_size": None} if is_stream else {
            **found, "batch_size": None, "sampler": loader._index_sampler}  # fmt: skip
    if is_stream:
        return {**found, "batch_size": loader.batch_size, "drop_last": loader.drop_last}
    return {**found, "batch_sampler": loader._index_sampler}
