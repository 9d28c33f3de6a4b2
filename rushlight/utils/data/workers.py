"""The main side of worker processes: start them, hand out indices, put batches in order.

Task `n` of a pass is the n-th batch. Every worker has at most `prefetch_factor` tasks at a time;
tasks go round the workers, so the order of an iterable dataset's batches is fixed too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.utils.data.transport import Mailbox
from rushlight.utils.data.worker import Job, worker_main

STOP_SECONDS = 5.0
STOP_AFTER_FAILURE_SECONDS = 0.5


class Channel:
    """One worker process and the connection to it."""

    def __init__(self, context: Any, job: Job, others: list[Connection]) -> None:
        own, other = context.Pipe(duplex=True)
        self.connection: Connection = own
        self.mailbox = Mailbox(own)
        # A fork has copies of the main process's ends. It closes them: a worker then sees at once
        # when the main process is gone.
        to_close = [*others, own] if context.get_start_method() == "fork" else []
        self.process = context.Process(
            target=worker_main, args=(job, other, os.getpid(), to_close), daemon=True
        )
        self.process.start()
        other.close()
        self.has_data = True

    def is_dead(self) -> bool:
        """Say if the process ended and left nothing to read."""
        return not self.process.is_alive() and not self.connection.poll()

    def how_it_died(self) -> str:
        """Name the signal that killed it, where there was one."""
        code, pid = self.process.exitcode, self.process.pid
        if code is not None and code < 0:
            return f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(-code)}. "
        return f"DataLoader worker (pid(s) {pid}) exited unexpectedly"


class WorkerPool:
    """The processes of one loader; they serve one pass, or many."""

    def __init__(self, loader: Any) -> None:
        self.owner = os.getpid()
        self.passes = 0
        self.channels: list[Channel] = []
        if hasattr(torch, "flush"):
            torch.flush()  # what is pending now is computed once, not in every child
        np.random.get_state()  # imports numpy.random here and not in every child
        context = loader.multiprocessing_context or multiprocessing
        try:
            for number in range(loader.num_workers):
                others = [channel.connection for channel in self.channels]
                self.channels.append(Channel(context, loader._job(number), others))
        except BaseException:
            self.shutdown()
            raise

    def start_pass(self, seed: int) -> int:
        """Tell all workers that a pass begins; return its number."""
        self.passes += 1
        for channel in self.channels:
            channel.has_data = True
            self.tell(channel, ("pass", seed))
        return self.passes

    def tell(self, channel: Channel, message: tuple[Any, ...]) -> None:
        """Send a message; one that is gone is reported."""
        try:
            channel.mailbox.send(message)
        except (BrokenPipeError, ConnectionResetError):
            channel.process.join(STOP_SECONDS)
            raise RuntimeError(channel.how_it_died()) from None

    def receive(self, timeout: float) -> tuple[Channel, Any]:
        """The next message of any worker; raise when one died or the time is over."""
        deadline = time.monotonic() + timeout if timeout > 0 else None
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            sources: list[Any] = [channel.connection for channel in self.channels]
            sources += [channel.process.sentinel for channel in self.channels]
            ready = wait(sources, left)
            for channel in self.channels:
                if channel.connection in ready:
                    return channel, self._read(channel)
            for channel in self.channels:
                if channel.is_dead():
                    raise RuntimeError(channel.how_it_died())
            if not ready:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")

    def _read(self, channel: Channel) -> Any:
        try:
            return channel.mailbox.receive()
        except (EOFError, ConnectionResetError):
            channel.process.join(STOP_SECONDS)
            raise RuntimeError(channel.how_it_died()) from None

    def shutdown(self, patience: float = STOP_SECONDS) -> None:
        """Ask the workers to stop, wait a little, then end those that did not."""
        if os.getpid() != self.owner:  # a copy in a forked child: the processes are not its own
            return
        channels, self.channels = self.channels, []
        for channel in channels:
            try:
                channel.mailbox.send(("stop",))
            except OSError:
                pass
            channel.mailbox.close()
        deadline = time.monotonic() + patience
        for channel in channels:
            channel.process.join(max(0.0, deadline - time.monotonic()))
            if channel.process.is_alive():
                channel.process.terminate()
                channel.process.join()

    def __del__(self) -> None:
        """Leave no process behind when a pass is dropped half way."""
        self.shutdown()


class _BaseDataLoaderIter:
    """One pass over the data of a loader: an iterator of batches, which knows how many."""

    loader: Any

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __len__(self) -> int:
        """The number of batches of a pass."""
        return len(self.loader)


class WorkerPass(_BaseDataLoaderIter):
    """One pass over the data with workers: an iterator of batches."""

    def __init__(self, loader: Any, pool: WorkerPool, seed: int) -> None:
        self.loader = loader
        self.pool = pool
        self.is_persistent = loader.persistent_workers
        self.tasks: Iterator[Any] = iter(loader._index_sampler)
        self.sent = 0  # tasks that were handed out
        self.wanted = 0  # the task whose batch is next
        self.first = 0  # the number of the next sample
        self.turn = 0  # the worker whose turn it is
        self.arrived: dict[int, tuple[str, Any]] = {}
        self.out_of_order: deque[tuple[str, Any]] = deque()
        self.pending: set[int] = set()
        self.yielded = 0
        self.number = pool.start_pass(seed)
        for _ in range(loader.prefetch_factor * loader.num_workers):
            self._send_task()

    def _send_task(self) -> None:
        """Give the next task to the next worker that still has data."""
        channels = self.pool.channels
        order = [channels[(self.turn + i) % len(channels)] for i in range(len(channels))]
        channel = next((channel for channel in order if channel.has_data), None)
        if channel is None:
            return
        try:
            indices = next(self.tasks)
        except StopIteration:
            return
        self.turn = (channels.index(channel) + 1) % len(channels)
        self.pool.tell(channel, ("fetch", (self.number, self.sent), self.first, indices))
        self.pending.add(self.sent)
        self.sent += 1
        self.first += len(indices) if self.loader._is_batched else 1

    def _next_answer(self) -> tuple[str, Any]:
        """The answer to the next task; out of order where the loader allows it."""
        while True:
            if self.out_of_order:
                return self.out_of_order.popleft()
            if self.wanted in self.arrived:
                self.wanted += 1
                return self.arrived.pop(self.wanted - 1)
            if not self.pending:
                self._finish()
                raise StopIteration
            channel, ((of_pass, number), kind, value) = self.pool.receive(self.loader.timeout)
            if of_pass != self.number:  # of a pass that was dropped half way
                continue
            self.pending.discard(number)
            if kind == "end":
                channel.has_data = False
            if self.loader.in_order:
                self.arrived[number] = (kind, value)
            else:
                self.out_of_order.append((kind, value))

    def __next__(self) -> Any:
        kind, value = self._next_batch()
        if kind == "error":
            value.reraise()
        self._count()
        return self.loader._pinned_if_wanted(value)

    def _next_batch(self) -> tuple[str, Any]:
        """The next batch or error, and a new task for it; without workers after a failure."""
        try:
            kind, value = self._next_answer()
            while kind == "end":
                self._send_task()
                kind, value = self._next_answer()
            self._send_task()
        except StopIteration:
            raise
        except BaseException:  # also Ctrl-C: no process goes on behind the user's back
            self.loader._forget_workers()
            self.pool.shutdown(STOP_AFTER_FAILURE_SECONDS)
            raise
        return kind, value

    def _count(self) -> None:
        """Warn when an iterable dataset gives more than its length says."""
        self.yielded += 1
        loader = self.loader
        length = loader._length_seen
        if loader._is_iterable and length is not None and self.yielded > length:
            warnings.warn(
                f"Length of IterableDataset {loader.dataset} was reported to be {length}"
                f"(when accessing len(dataloader)), but {self.yielded} samples have been fetched. "
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for "
                "examples.",
                stacklevel=3,
            )

    def _finish(self) -> None:
        if not self.is_persistent:
            self.pool.shutdown()
