"""What a worker process does: wait for indices, fetch and collate, send the batch.

Messages to a worker:
    ("pass", seed)                     start a pass over the data
    ("fetch", task, first, indices)    fetch samples; the first is number `first` of the pass
    ("stop",)
Messages from a worker:
    (task, kind, value)                kind is "batch", "error" or "end" (no more data)
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.utils.data import seeds
from rushlight.utils.data.dataset import fetch
from rushlight.utils.data.transport import Mailbox
from rushlight.utils.data.worker_error import WorkerError

__all__ = ["_generate_state", "get_worker_info", "WorkerInfo"]

PARENT_CHECK_SECONDS = 5.0
NO_SAMPLE = object()


@dataclass
class WorkerInfo:
    """What code in a worker can ask about it."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the worker's id, the number of workers, its seed and its dataset; None outside.

    Example:
        >>> get_worker_info() is None
        True
    """
    return _worker_info


@dataclass
class Job:
    """What a worker is started with."""

    dataset: Any
    is_iterable: bool
    is_batched: bool
    drop_last: bool
    collate_fn: Callable[[Any], Any]
    worker_init_fn: Callable[[int], Any] | None
    worker_id: int
    num_workers: int


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four words of 32 bits to seed numpy with, from a seed of 64 bits and a worker's number."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in np.random.SeedSequence(words).generate_state(4)]


def fetch_seeded(dataset: Any, indices: list[Any], seed_of: Callable[[int], None]) -> list[Any]:
    """The samples, each with its own seed; one seed where the dataset reads them all at once."""
    if callable(getattr(dataset, "__getitems__", None)):
        seed_of(0)
        return fetch(dataset, indices)
    samples = []
    for place, index in enumerate(indices):
        seed_of(place)
        samples.append(dataset[index])
    return samples


class Worker:
    """The state of one worker process."""

    def __init__(self, job: Job, connection: Connection, parent: int) -> None:
        self.job = job
        self.mailbox = Mailbox(connection)
        self.parent = parent
        self.seed = 0
        self.samples: Iterator[Any] | None = None
        self.seeded = tuple(seeds.SEEDERS)
        self.failure: WorkerError | None = None
        self.where = f"in DataLoader worker process {job.worker_id}"

    def run(self) -> None:
        """Answer messages until told to stop, or until the main process is gone."""
        is_first = True
        while (message := self._next_message()) is not None:
            if message[0] == "pass":
                self._start_pass(message[1], is_first)
                is_first = False
            else:
                _, task, first, indices = message
                self._send(task, *self._answer(first, indices))

    def _send(self, task: Any, kind: str, value: Any) -> None:
        try:
            self.mailbox.send((task, kind, value))
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception:  # a batch that cannot be pickled
            self.mailbox.send((task, "error", WorkerError(self.where)))

    def _next_message(self) -> tuple[Any, ...] | None:
        while not self.mailbox.connection.poll(PARENT_CHECK_SECONDS):
            if os.getppid() != self.parent:
                return None
        message = self.mailbox.receive()
        return None if message[0] == "stop" else message

    def _start_pass(self, seed: int, is_first: bool) -> None:
        global _worker_info
        self.seed = seed
        job = self.job
        own_seed = seed + job.worker_id
        try:
            seeds.seed_all(own_seed, seeds.SEEDERS if is_first else self.seeded)
            if is_first:
                _worker_info = WorkerInfo(job.worker_id, job.num_workers, own_seed, job.dataset)
                self._initialize()
            self.samples = iter(job.dataset) if job.is_iterable else None
        except Exception:
            self.failure = WorkerError(self.where)

    def _initialize(self) -> None:
        """Call `worker_init_fn`; a library that it seeds keeps that seed."""
        if self.job.worker_init_fn is None:
            return
        before = seeds.states()
        self.job.worker_init_fn(self.job.worker_id)
        after = seeds.states()
        self.seeded = tuple(name for name in self.seeded if before[name] == after[name])

    def _answer(self, first: int, indices: Any) -> tuple[str, Any]:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            return "error", failure
        try:
            samples = self._stream(indices) if self.job.is_iterable else self._map(first, indices)
            if samples is NO_SAMPLE:
                return "end", None
            return "batch", self.job.collate_fn(samples)
        except Exception:
            return "error", WorkerError(self.where)

    def _map(self, first: int, indices: Any) -> Any:
        def seed_of(place: int) -> None:
            seeds.seed_all(seeds.mixed(self.seed, first + place), self.seeded)

        dataset = self.job.dataset
        if self.job.is_batched:
            return fetch_seeded(dataset, indices, seed_of)
        return fetch_seeded(dataset, [indices], seed_of)[0]

    def _stream(self, indices: Any) -> Any:
        """The next sample, or as many as there are indices, of an iterable dataset."""
        assert self.samples is not None
        if not self.job.is_batched:
            return next(self.samples, NO_SAMPLE)
        batch = []
        for _ in indices:
            sample = next(self.samples, NO_SAMPLE)
            if sample is NO_SAMPLE:
                break
            batch.append(sample)
        is_short = len(batch) < len(indices)
        return NO_SAMPLE if not batch or (is_short and self.job.drop_last) else batch


def worker_main(job: Job, connection: Connection, parent: int, to_close: list[Connection]) -> None:
    """The body of the process."""
    for copy in to_close:
        copy.close()
    # Ctrl-C goes to all processes of a terminal; the main one tells the workers to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    try:
        Worker(job, connection, parent).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the main process closed its end
    finally:
        connection.close()
