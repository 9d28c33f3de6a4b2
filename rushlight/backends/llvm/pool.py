"""The native thread pool: worker threads that enter native code once and stay there.

Gives the process's `Pool`, on which executor.py runs launch tables; runtime/threads.py says how
large it is. Always true: workers are daemon threads that hold no Python lock while they wait or
work; they spin `spin_us` after the last region, then sleep; they are sent home before the
interpreter exits and before a pool of another size takes over; the child of a fork starts with a
fresh pool.

Not on Windows yet: the sleep uses pthreads, so there every program runs on the calling thread.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time

import numpy as np

from rushlight.backends.llvm.pool_ir import BIAS, OFFSETS, POOL_BYTES, native
from rushlight.base.config import config
from rushlight.runtime.buffer import Buffer, allocate
from rushlight.runtime.threads import num_threads, on_change

# An interpreter that exits does not wait longer for a program of a daemon thread.
_EXIT_WAIT_S = 10.0


class Pool:
    """`threads` threads in all, the caller included. Used by one caller at a time (see `lock`)."""

    def __init__(self, threads: int, spin_us: float) -> None:
        self.threads = threads
        self.lock = threading.Lock()
        self._memory = allocate(POOL_BYTES)
        self.address = self._memory.address
        self._words = _words(self._memory, POOL_BYTES // 8)
        self._locals, self._ids = allocate(8 * threads), allocate(8 * threads)
        self._local_list = _words(self._locals, threads)
        self._scratch: list[Buffer] = []
        self.local_bytes = 0
        self._words[:] = 0
        self.ensure_local(64)
        spins = max(1, int(spin_us * 1000 / pause_ns()))
        fields = {
            "spins": spins,
            "locals": self._locals.address,
            "threads": threads,
            "ids": self._ids.address,
            "caller_cpu": -1,
        }
        for name, value in fields.items():
            self._words[OFFSETS[name] // 8] = value
        native().pool_init(self.address)
        self._workers = [
            threading.Thread(
                target=native().worker_main,
                args=(self.address, index),
                name=f"rushlight-worker-{index}",
                daemon=True,
            )
            for index in range(1, threads)
        ]
        for worker in self._workers:
            worker.start()
        _words(self._ids, threads)[1:] = [worker.native_id for worker in self._workers]

    def ensure_local(self, nbytes: int) -> None:
        """Scratch of at least `nbytes` for every thread (with the lock held, nothing running)."""
        if nbytes <= self.local_bytes:
            return
        scratch = [allocate(nbytes) for _ in range(self.threads)]
        self._local_list[:] = [buffer.address for buffer in scratch]
        self._scratch, self.local_bytes = scratch, nbytes

    @property
    def caller_local(self) -> int:
        return self._scratch[0].address

    def stop(self) -> None:
        """Send the workers home and wait for them. The pool is of no use afterwards."""
        native().pool_stop(self.address)
        for worker in self._workers:
            worker.join()
        self._workers = []


def _words(buffer: Buffer, count: int) -> np.ndarray:
    return np.asarray(buffer)[: 8 * count].view(np.int64)


@functools.cache
def pause_ns() -> float:
    """How long one turn of the idle loop takes, measured once (the fastest of five tries)."""
    word = np.full(1, BIAS, np.int64)
    turns, best = 1000, float("inf")
    for _ in range(5):
        start = time.perf_counter_ns()
        native().pause_many(turns, word.ctypes.data)
        best = min(best, (time.perf_counter_ns() - start) / turns)
    return max(best, 0.1)


class _State:
    """The process's pool, made at first use."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.pool: Pool | None = None


_STATE = _State()


def _threads() -> int:
    """Threads of a pool that is made now, the calling one included."""
    return 1 if os.name == "nt" else num_threads()


def _resize() -> None:
    """Drop a pool of another size; waits for a program that is running."""
    with _STATE.lock:
        if _STATE.pool is not None and _STATE.pool.threads != _threads():
            _drop_pool()


on_change(_resize)


def get_pool() -> Pool:
    """The pool of this process with the present settings."""
    pool = _STATE.pool
    if pool is None:
        with _STATE.lock:
            pool = _STATE.pool
            if pool is None:
                pool = _STATE.pool = Pool(_threads(), config.spin_us)
    return pool


def describe_pool() -> str:
    """The state of the pool, for people."""
    count = _threads()
    threads = f"{count} thread{'s' * (count > 1)}, spinning {config.spin_us} us before they sleep"
    pool = _STATE.pool
    if pool is None:
        return f"{threads}; not started (the first large program does it)"
    return f"{threads}; running, {pool.local_bytes >> 10} KiB of scratch each"


def is_current(pool: Pool) -> bool:
    """False when the pool was replaced, so its workers are gone."""
    return pool is _STATE.pool


def _drop_pool(timeout_s: float = -1) -> None:
    """Wait for the program that has the pool (at most so long), then send its workers home."""
    pool = _STATE.pool
    if pool is None or not pool.lock.acquire(timeout=timeout_s):
        return
    try:
        _STATE.pool = None
        pool.stop()
    finally:
        pool.lock.release()


def _after_fork_in_child() -> None:
    """No worker lives on in the child, and a lock may be held by a thread that is not there."""
    global _STATE
    old = _STATE.pool
    _STATE = _State()
    # The old pool's memory stays: freeing it is not worth reasoning about a half-done run.
    _LEFT_BY_FORK.append(old)


_LEFT_BY_FORK: list[Pool | None] = []


def stop_workers() -> None:
    """Send all workers home; the next program starts a new pool. Registered to run at exit."""
    with _STATE.lock:
        _drop_pool(timeout_s=_EXIT_WAIT_S)


atexit.register(stop_workers)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
