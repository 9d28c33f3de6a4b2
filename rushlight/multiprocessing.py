"""torch.multiprocessing: Python's multiprocessing, and functions that start a group of processes.

Tensors are sent by value. `import torch` in a child started by `rushlight run` finds Rushlight.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing import get_context
from typing import Any

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    *multiprocessing.__all__, "ProcessContext", "ProcessExitedException", "ProcessException",
    "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy",
    "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip


class _Strategy:
    name = "file_system"


def get_all_sharing_strategies() -> set[str]:
    """Names that `set_sharing_strategy` takes."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    return _Strategy.name


def set_sharing_strategy(new_strategy: str) -> None:
    """Remembered: tensors are sent by value, whatever the strategy."""
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(f"sharing strategy {new_strategy!r}, expected one of "
                         f"{sorted(get_all_sharing_strategies())}")  # fmt: skip
    _Strategy.name = new_strategy


class ProcessException(Exception):
    """A process of a group failed: which one."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """It raised; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """It ended by a signal or with an exit code."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], number: int, args: tuple, errors: Any) -> None:
    try:
        fn(number, *args)
    except KeyboardInterrupt:
        pass  # the parent has it too, and says so
    except Exception:
        errors.put(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """A started group of processes."""

    def __init__(self, processes: list[Any], error_queues: list[Any]) -> None:
        self.processes, self.error_queues = processes, error_queues
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the processes; True when all have ended well. If one fails, the others are
        ended and its error is raised."""
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(self.sentinels, timeout=timeout)
        failed = None
        for sentinel in ready:
            number = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            self.processes[number].join()
            if self.processes[number].exitcode != 0 and failed is None:
                failed = number
        if failed is None:
            return not self.sentinels
        self._end_others(grace_period)
        self._raise_for(failed)
        return False

    def _end_others(self, grace_period: float | None) -> None:
        until = time.monotonic() + (30 if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _raise_for(self, number: int) -> None:
        process, queue = self.processes[number], self.error_queues[number]
        if process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            raise ProcessExitedException(
                f"process {number} terminated with signal {name}", number, process.pid,
                process.exitcode, name,
            )  # fmt: skip
        if queue.empty():
            raise ProcessExitedException(
                f"process {number} terminated with exit code {process.exitcode}", number,
                process.pid, process.exitcode,
            )  # fmt: skip
        text = queue.get()
        raise ProcessRaisedException(
            f"\n\n-- Process {number} terminated with the following error:\n{text}", number,
            process.pid,
        )  # fmt: skip


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any], args: tuple = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Run `fn(i, *args)` in `nprocs` processes; waits for them unless `join` is False."""
    context = get_context(start_method)
    processes, queues = [], []
    for number in range(nprocs):
        queue = context.SimpleQueue()
        process = context.Process(target=_run, args=(fn, number, args, queue), daemon=daemon)
        process.start()
        processes.append(process)
        queues.append(queue)
    group = ProcessContext(processes, queues)
    if not join:
        return group
    while not group.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """As `start_processes`, with new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
