"""torch.profiler: kernels and ranges are counted, steps follow the schedule, files are written."""

import json

import pytest

import rushlight as torch
from rushlight.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule


def work():
    return torch.ones(64, 64).exp().sum().item()


def test_kernels_and_ranges():
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        with record_function("part"):
            work()
        work()
    averages = {a.key: a for a in prof.key_averages()}
    assert averages["part"].count == 1
    kernels = [e for e in prof.events() if e.kind == "kernel"]
    assert len(kernels) == 2 and all(e.duration > 0 and e.flops > 0 for e in kernels)
    part = next(e for e in prof.events() if e.name == "part")
    assert part.start <= kernels[0].start and 0 < part.inner <= part.duration
    text = prof.key_averages().table(sort_by="cpu_time_total", row_limit=1)
    assert "# of Calls" in text and "Self CPU time total" in text
    assert len(text.splitlines()) == 6


def test_when_an_event_ran():
    with profile() as prof:
        (torch.ones(50, 50) @ torch.ones(50, 50)).sum().item()
    event = next(e for e in prof.events() if e.name)
    assert event.time_range.elapsed_us() == pytest.approx(event.cpu_time)
    assert event.time_range.end >= event.time_range.start >= 0


def test_schedule():
    plan = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    none, warm, keep, save = ProfilerAction
    assert [plan(i) for i in range(7)] == [none, none, warm, keep, save, none, none]


def test_steps_and_handler(tmp_path):
    seen = []
    plan = schedule(wait=1, warmup=1, active=2)
    kernels = lambda p: [e for e in p.events() if e.kind == "kernel"]  # noqa: E731
    with profile(schedule=plan, on_trace_ready=lambda p: seen.append(len(kernels(p)))) as prof:
        for _ in range(8):
            work()
            prof.step()
    assert seen == [2, 2]


def test_trace_file(tmp_path):
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path / "log"))
    with profile(on_trace_ready=handler), record_function("part"):
        work()
    (path,) = (tmp_path / "log").glob("*.json")
    names = [event["name"] for event in json.loads(path.read_text())["traceEvents"]]
    assert "part" in names and len(names) == 2


def test_ranges_decorate_and_cost_nothing_outside():
    @record_function("f")
    def f(x):
        return x + 1

    assert f(1) == 2
    with profile() as prof:
        f(1)
    assert [e.name for e in prof.events()] == ["f"]
    assert torch.autograd.profiler.record_function is record_function
