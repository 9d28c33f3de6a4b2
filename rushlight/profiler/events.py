"""What a profile collected: kernels and named ranges, as a list, as a table, as a Chrome trace."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SORTS = {
    "cpu_time": "cpu_time", "cpu_time_total": "cpu_time_total", "count": "count",
    "self_cpu_time_total": "self_cpu_time_total", "flops": "flops",
}  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """When an event ran, in microseconds since the profile began."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """How long it took."""
        return self.end - self.start


@dataclass
class FunctionEvent:
    """One run of a kernel, or one pass through a named range. Times in microseconds since the
    profile began; kind: "kernel" or "range"; inner: time of kernels inside a range."""

    name: str
    start: float
    duration: float
    kind: str
    inner: float = 0.0
    bytes: int = 0
    flops: int = 0
    lines: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.name

    @property
    def time_range(self) -> Interval:
        return Interval(self.start, self.start + self.duration)

    @property
    def cpu_time(self) -> float:
        return self.duration

    cpu_time_total = cpu_time

    @property
    def self_cpu_time_total(self) -> float:
        """Without the kernels that are events of their own."""
        return max(self.duration - self.inner, 0.0)


class FunctionEventAvg:
    """All events of one name."""

    def __init__(self, events: list[FunctionEvent]) -> None:
        self.key = self.name = events[0].name
        self.count = len(events)
        self.cpu_time_total = sum(e.duration for e in events)
        self.self_cpu_time_total = sum(e.self_cpu_time_total for e in events)
        self.bytes, self.flops = sum(e.bytes for e in events), sum(e.flops for e in events)
        self.is_user_annotation = events[0].kind == "range"

    @property
    def cpu_time(self) -> float:
        """Of one event, on average."""
        return self.cpu_time_total / self.count

    device_time_total = self_device_time_total = cuda_time_total = self_cuda_time_total = 0.0

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={time_text(self.self_cpu_time_total)}"
            f" cpu_time={time_text(self.cpu_time)}>"
        )


class EventList(list):
    """Events, or averages of events by name."""

    def key_averages(self, *_: Any, **__: Any) -> EventList:
        """One entry for each name, the longest first."""
        by_name: dict[str, list[FunctionEvent]] = {}
        for event in self:
            by_name.setdefault(event.name, []).append(event)
        found = [FunctionEventAvg(events) for events in by_name.values()]
        return EventList(sorted(found, key=lambda a: -a.cpu_time_total))

    def total_average(self) -> Any:
        """Everything together, under the name "Total"."""
        total = FunctionEventAvg([FunctionEvent("Total", 0.0, 0.0, "range")])
        total.count = sum(getattr(a, "count", 1) for a in self)
        total.cpu_time_total = total.self_cpu_time_total = self.self_cpu_time_total
        return total

    @property
    def self_cpu_time_total(self) -> float:
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80,
        header: str | None = None, top_level_events_only: bool = False,
    ) -> str:  # fmt: skip
        """Lines with name, share, time and number of calls."""
        rows = [a for a in self if isinstance(a, FunctionEventAvg)] or self.key_averages()
        key = SORTS.get((sort_by or "").replace("cuda", "cpu").replace("device", "cpu"))
        if key is not None:
            rows = sorted(rows, key=lambda a: -getattr(a, key))
        total = sum(a.self_cpu_time_total for a in rows)
        width = min(max([4, *(len(a.key) for a in rows)]), max_name_column_width)
        heads = ("Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls")
        line = "  ".join(["-" * width, *["-" * 12] * len(heads)])
        lines = [header] if header else []
        lines += [line, "  ".join([f"{'Name':>{width}}", *[f"{h:>12}" for h in heads]]), line]
        for a in rows[:row_limit] if row_limit >= 0 else rows:
            name = a.key if len(a.key) <= width else a.key[: width - 3] + "..."
            share = 100 * a.self_cpu_time_total / total if total else 0.0
            cells = (f"{share:.2f}%", time_text(a.self_cpu_time_total),
                     time_text(a.cpu_time_total), time_text(a.cpu_time), str(a.count))  # fmt: skip
            lines.append("  ".join([f"{name:>{width}}", *[f"{c:>12}" for c in cells]]))
        return "\n".join([*lines, line, f"Self CPU time total: {time_text(total)}", ""])

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """A file for chrome://tracing and Perfetto."""
        write_trace(path, self)


def write_trace(path: str, events: Iterable[FunctionEvent], metadata: Any = None) -> None:
    """The events as Chrome's JSON."""
    process = os.getpid()
    found = [
        {
            "ph": "X", "cat": "kernel" if e.kind == "kernel" else "user_annotation",
            "name": e.name, "pid": process, "tid": 1 if e.kind == "kernel" else 0,
            "ts": e.start, "dur": e.duration,
            "args": {"bytes": e.bytes, "flops": e.flops, "lines": list(e.lines)},
        }
        for e in events
    ]  # fmt: skip
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"schemaVersion": 1, **(metadata or {}), "traceEvents": found}, file)


def time_text(microseconds: float) -> str:
    """1.234ms."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"
