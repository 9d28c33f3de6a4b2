"""Runs plans of kernels that are native functions: pointers are used as they are.

A kernel `void k(int64 first, int64 stop, void **buffers, int64 *numbers, int64 *status)` does
the groups first <= group_id < stop; they are shared out to threads where there is much to do.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from rushlight.backends.cfamily.run import GroupPlan, Launch
from rushlight.compiler.target import Plan

# Bytes of memory that a kernel touches from which on threads are worth waking.
SHARED_FROM = 1 << 18


class HostSession:
    """One run. Launches are done when `launch` returns."""

    def __init__(self, pointers: Sequence[int], words: np.ndarray, threads: int) -> None:
        self.pointers = np.asarray(pointers, np.int64)
        self.words, self.threads = words, threads
        self._status = np.zeros(1, np.int64)

    def launch(self, launch: Launch) -> None:
        buffers = self.pointers[list(launch.buffers)]
        words = self.words[launch.words]
        places = (buffers.ctypes.data, words.ctypes.data, self._status.ctypes.data)
        call, groups = launch.function.call, launch.groups
        parts = min(self.threads, groups) if launch.nbytes >= SHARED_FROM else 1
        if parts == 1:
            call(0, groups, *places)
            return
        edges = [groups * i // parts for i in range(parts + 1)]
        running = [
            _pool(self.threads).submit(call, low, high, *places)
            for low, high in zip(edges[1:-1], edges[2:], strict=True)
        ]
        call(0, edges[1], *places)
        for one in running:
            one.result()

    def status(self) -> int:
        return int(self._status[0])

    def to_host(self, numbers: Iterable[int]) -> None:
        """Host memory is all there is."""

    def to_device(self, numbers: Iterable[int]) -> None:
        """As above."""


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="rushlight-groups")


def load_on_host(plan: Plan, threads: int) -> GroupPlan:
    def begin(
        pointers: Sequence[int], nbytes: Sequence[int], words: np.ndarray, plan: Plan
    ) -> HostSession:
        return HostSession(pointers, words, threads)

    return GroupPlan(plan, begin)
