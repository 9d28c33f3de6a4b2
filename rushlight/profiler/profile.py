"""`profile`: listens to the kernels that run inside it, and to named ranges.

Programs are run kernel by kernel and compiled anew once, so the first steps of a profile are slow:
give a `schedule` with `warmup`, or run the code once before.
"""

from __future__ import annotations

import enum
import functools
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from rushlight.engine.listen import KernelRun, Listener
from rushlight.engine.realize import flush
from rushlight.engine.watch import listening
from rushlight.profiler.events import EventList, FunctionEvent, write_trace


class ProfilerActivity(enum.Enum):
    """What can be measured; here only CPU has events."""

    CPU = 0
    XPU = 1
    CUDA = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profile does with a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """A function from the number of a step to what is done: `wait` steps nothing, `warmup` steps
    without keeping, `active` steps kept; `repeat` times (0: for ever), after `skip_first` steps."""
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ValueError("schedule: wait, warmup, repeat, skip_first must be >= 0, active > 0")

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat and step >= repeat * length:
            return ProfilerAction.NONE
        at = step % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        last = at == length - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes a Chrome trace into a folder."""

    def handle(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handle


class _Open(threading.local):
    profiles: tuple[Any, ...] = ()


_OPEN = _Open()


class record_function:  # noqa: N801
    """A named range; also a decorator. Outside a profile it does nothing.

    >>> from rushlight.profiler import profile, record_function
    >>> with profile() as prof, record_function("my part"):
    ...     pass
    >>> [event.name for event in prof.events()]
    ['my part']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._begun: list[float] = []

    def __enter__(self) -> record_function:
        if _OPEN.profiles:
            flush()  # what was recorded before does not belong to the range
        self._begun.append(time.perf_counter())
        return self

    def __exit__(self, *_: object) -> None:
        began = self._begun.pop()
        if _OPEN.profiles:
            flush()
            for prof in _OPEN.profiles:
                prof._range(self.name, began, time.perf_counter())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapped


class profile(Listener):  # noqa: N801
    """Collects what runs inside its block.

    activities, record_shapes, profile_memory, with_stack, with_flops, with_modules are accepted:
    every event knows its bytes, operations and the user's lines. schedule: see `schedule`;
    on_trace_ready(profile) is called when the active steps of a cycle are over, or at the end.

    >>> import rushlight as torch
    >>> with torch.profiler.profile() as prof:
    ...     x = torch.ones(8).sum().item()
    >>> prof.key_averages()[0].count
    1
    """

    def __init__(
        self, *, activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, **_: Any,
    ) -> None:  # fmt: skip
        self.activities = set(activities or supported_activities())
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.step_num, self._cycle_over = 0, False
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self._events = EventList()
        self._metadata: dict[str, Any] = {}
        self._listening: AbstractContextManager[int] | None = None
        self._began = time.perf_counter()

    @property
    def current_action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to listen."""
        flush()
        self._events, self._began = EventList(), time.perf_counter()
        self._listening = listening(self)
        self._listening.__enter__()
        _OPEN.profiles = (*_OPEN.profiles, self)

    def stop(self) -> None:
        """Compute what waits, and listen no longer."""
        if self._listening is None:
            return
        flush()
        self._listening.__exit__(None, None, None)
        self._listening = None
        _OPEN.profiles = tuple(p for p in _OPEN.profiles if p is not self)
        recording = self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if self.on_trace_ready is not None and recording:
            self.on_trace_ready(self)

    def step(self) -> None:
        """A step of the program is over."""
        flush()
        before = self.current_action
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._cycle_over = True
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self.step_num += 1
        if self._cycle_over and self._keeps():  # a finished cycle can be looked at until then
            self._events, self._cycle_over = EventList(), False

    def _keeps(self) -> bool:
        return self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def run(self, run: KernelRun) -> None:
        """A kernel has run (the engine calls this)."""
        if self._keeps():
            duration = run.seconds * 1e6
            start = (time.perf_counter() - self._began) * 1e6 - duration
            self._events.append(FunctionEvent(
                run.info.label, start, duration, "kernel", 0.0, run.cost.bytes, run.cost.flops,
                tuple(run.info.lines),
            ))  # fmt: skip

    def _range(self, name: str, began: float, ended: float) -> None:
        if self._keeps():
            start, end = (began - self._began) * 1e6, (ended - self._began) * 1e6
            inner = sum(e.duration for e in self._events
                        if e.kind == "kernel" and start <= e.start and e.start < end)  # fmt: skip
            self._events.append(FunctionEvent(name, start, end - start, "range", inner))

    def events(self) -> EventList:
        """Every event, in order."""
        return self._events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any
    ) -> EventList:
        """One entry for each name, the longest first; `.table()` prints them."""
        return self._events.key_averages()

    def add_metadata(self, key: str, value: str) -> None:
        """A text for the head of the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """A value as JSON for the head of the trace."""
        self._metadata[key] = json.loads(value)

    def export_chrome_trace(self, path: str) -> None:
        """A file for chrome://tracing and Perfetto."""
        write_trace(path, self._events, self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """A file for flame graphs: the user's lines of each kernel, and its microseconds."""
        with open(path, "w", encoding="utf-8") as file:
            for event in self._events:
                if event.kind == "kernel":
                    stack = ";".join([*event.lines, event.name])
                    file.write(f"{stack} {int(event.duration)}\n")

    def total_average(self) -> Any:
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        return self._events.self_cpu_time_total
