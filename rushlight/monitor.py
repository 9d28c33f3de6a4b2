"""torch.monitor: events that handlers get, and statistics that log themselves as events.

>>> import datetime
>>> stat = Stat("loss", [MEAN, COUNT], datetime.timedelta(hours=1), 2)
>>> handle = register_event_handler(lambda event: print(event.name, sorted(event.data.items())))
>>> stat.add(1.0)
>>> stat.add(2.0)
torch.monitor.Stat [('loss.count', 2.0), ('loss.mean', 1.5)]
>>> unregister_event_handler(handle)
"""

from __future__ import annotations

import datetime
import enum
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "Aggregation", "COUNT", "Event", "EventHandlerHandle", "MAX", "MEAN", "MIN", "STAT_EVENT",
    "SUM", "Stat", "TensorboardEventHandler", "VALUE", "data_value_t", "log_event",
    "register_event_handler", "unregister_event_handler",
]  # fmt: skip

STAT_EVENT = "torch.monitor.Stat"


class Aggregation(enum.Enum):
    """What a `Stat` makes of the values of one window: the last value, their mean, and so on."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT = Aggregation.VALUE, Aggregation.MEAN, Aggregation.COUNT
SUM, MAX, MIN = Aggregation.SUM, Aggregation.MAX, Aggregation.MIN
data_value_t = str | int | float | bool


class Event:
    """A named set of values at one time."""

    __slots__ = ("data", "name", "timestamp")

    def __init__(
        self, name: str, timestamp: datetime.datetime, data: Mapping[str, data_value_t]
    ) -> None:
        if not isinstance(timestamp, datetime.datetime):
            raise TypeError(f"Event: timestamp must be a datetime, got {type(timestamp).__name__}")
        wrong = {key: value for key, value in data.items() if not isinstance(value, data_value_t)}
        if wrong:
            raise TypeError(f"Event: data are str, int, float or bool, got {wrong}")
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """What `register_event_handler` gives, to take the handler away again."""

    __slots__ = ()


_HANDLERS: dict[EventHandlerHandle, Callable[[Event], Any]] = {}


def register_event_handler(callback: Callable[[Event], Any]) -> EventHandlerHandle:
    """Call `callback` with each event from now on."""
    handle = EventHandlerHandle()
    _HANDLERS[handle] = callback
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Take a handler away; one that is gone already is no error."""
    _HANDLERS.pop(handler, None)


def log_event(event: Event) -> None:
    """Give an event to all handlers, in the order of their registration."""
    for handler in list(_HANDLERS.values()):
        handler(event)


class Stat:
    """Collects numbers and logs an event `torch.monitor.Stat` for each window of time.

    A window ends after `window_size`, or with `max_samples` values; what comes after those in the
    same window is not counted. The last window is logged when the object goes.
    """

    def __init__(
        self,
        name: str,
        aggregations: list[Aggregation],
        window_size: datetime.timedelta,
        max_samples: int = 2**63 - 1,
    ) -> None:
        self.name, self.max_samples = name, max_samples
        self._aggregations, self._seconds = list(aggregations), window_size.total_seconds()
        # Of this window and of the last one that was logged; empty without values.
        self._now: dict[Aggregation, float] = {}
        self._before: dict[Aggregation, float] = {}
        self._lock = threading.Lock()
        self._window, self._full = self._current_window(), False

    @property
    def count(self) -> int:
        """How many values this window has."""
        return int(self._now.get(COUNT, 0))

    def add(self, v: float) -> None:
        """Count one value."""
        with self._lock:
            window = self._current_window()
            if window != self._window:
                self._log()
                self._window, self._full = window, False
            if not self._full:
                self._count(float(v))
                if self.count >= self.max_samples:
                    self._log()
                    self._full = True

    def get(self) -> dict[Aggregation, float]:
        """The figures of the last window that was logged; zeros before the first."""
        return {each: self._before.get(each, 0.0) for each in self._aggregations}

    def _current_window(self) -> int:
        return int(time.monotonic() / self._seconds)

    def _count(self, v: float) -> None:
        old = self._now
        count, total = old.get(COUNT, 0.0) + 1, old.get(SUM, 0.0) + v
        self._now = {
            VALUE: v, COUNT: count, SUM: total, MEAN: total / count,
            MAX: max(v, old.get(MAX, v)), MIN: min(v, old.get(MIN, v)),
        }  # fmt: skip

    def _log(self) -> None:
        if not self._now:
            return
        self._before, self._now = self._now, {}
        data = {f"{self.name}.{kind.name.lower()}": value for kind, value in self.get().items()}
        log_event(Event(STAT_EVENT, datetime.datetime.now(), data))

    def __del__(self) -> None:
        if getattr(self, "_now", None):
            self._log()


class TensorboardEventHandler:
    """A handler that writes the figures of each `Stat` to a SummaryWriter, as scalars."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for key, value in event.data.items():
                self._writer.add_scalar(key, value, walltime=event.timestamp.timestamp())
