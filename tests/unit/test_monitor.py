"""torch.monitor: handlers, windows of statistics, and what goes to TensorBoard."""

import datetime

import pytest

from rushlight import monitor
from rushlight.monitor import COUNT, MAX, MEAN, MIN, SUM, VALUE, Event, Stat

HOUR = datetime.timedelta(hours=1)
NOW = datetime.datetime(2020, 1, 2)


@pytest.fixture
def events():
    seen = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


def test_events_reach_handlers_until_they_are_taken_away():
    seen = []
    handle = monitor.register_event_handler(seen.append)
    event = Event("x", NOW, {"i": 1, "s": "q"})
    monitor.log_event(event)
    monitor.unregister_event_handler(handle)
    monitor.unregister_event_handler(handle)
    monitor.log_event(event)
    assert seen == [event] and seen[0].data == {"i": 1, "s": "q"}


def test_wrong_data_are_refused():
    with pytest.raises(TypeError, match="None"):
        Event("x", NOW, {"i": None})
    with pytest.raises(TypeError, match="timestamp"):
        Event("x", 3, {})


def test_a_full_window_is_logged_once_and_takes_no_more(events, monkeypatch):
    monkeypatch.setattr(monitor.time, "monotonic", lambda: 5.0)
    stat = Stat("b", [SUM, MEAN], HOUR, 2)
    counts = []
    for value in (1, 2, 3, 4):
        stat.add(value)
        counts.append(stat.count)
    assert counts == [1, 0, 0, 0] and stat.get() == {SUM: 3.0, MEAN: 1.5}
    assert [event.data for event in events] == [{"b.sum": 3.0, "b.mean": 1.5}]
    assert events[0].name == "torch.monitor.Stat"


def test_a_window_ends_with_its_time(events, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(monitor.time, "monotonic", lambda: clock[0])
    stat = Stat("c", [SUM, COUNT, MAX, MIN, VALUE], datetime.timedelta(seconds=2))
    stat.add(-2)
    stat.add(3)
    assert stat.get()[SUM] == 0.0 and not events
    clock[0] = 2.5
    stat.add(7)
    wanted = {"c.sum": 1.0, "c.count": 2.0, "c.max": 3.0, "c.min": -2.0, "c.value": 3.0}
    assert events[0].data == wanted and stat.count == 1
    del stat
    assert events[1].data["c.sum"] == 7.0


def test_tensorboard_gets_the_figures_of_statistics_only():
    class Writer:
        rows = []

        def add_scalar(self, *row, walltime):
            self.rows.append((*row, walltime))

    handler = monitor.TensorboardEventHandler(Writer())
    handler(Event("other", NOW, {"a": 1}))
    handler(Event(monitor.STAT_EVENT, NOW, {"a.sum": 2.0}))
    assert Writer.rows == [("a.sum", 2.0, NOW.timestamp())]
