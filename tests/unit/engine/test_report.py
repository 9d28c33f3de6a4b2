"""DEBUG, ONLY and DEBUG_FORMAT: the lines have a stable form, and nothing is printed at 0."""

import json
import re

import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.engine import watch
from rushlight.engine.only import Only

HERE = "test_report.py"


def softmax_of_sum():
    """Two kernels: a contraction, then a softmax of its rows."""
    x = torch.ones(32, 48)
    w = torch.ones(48, 64)
    with config.override(debug=0):
        assert float(x[0, 0]) == float(w[0, 0]) == 1.0
    return torch.softmax(x @ w, dim=-1).tolist()


def printed(capsys, work=softmax_of_sum, **settings):
    """Lines on standard error with these settings; numbers that vary are masked."""
    with config.override(**settings):
        watch.is_watched()
        work()
    watch.is_watched()
    text = capsys.readouterr().err
    text = re.sub(r" *\d+\.\d+ (ms|MB|GB/s|GFLOP/s)", r" # \1", text)
    return re.sub(r"(?<=GFLOP/s  )(built|disk|cached) *", "HOW ", text).splitlines()


def test_debug_0_prints_nothing_and_runs_whole_plans(capsys, monkeypatch):
    monkeypatch.setattr(watch, "run_watched", lambda *_: pytest.fail("run kernel by kernel"))
    monkeypatch.setattr(watch, "CompileLog", lambda *_: pytest.fail("listened to"))
    with config.override(check=1):
        softmax_of_sum()
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_debug_1_has_one_line_per_kernel(capsys):
    assert printed(capsys, debug=1) == [
        "[run] k1    dot_dot_float32                  cpu:llvm   32x64            # ms",
        "[run] k2    rows_exp_reduce_sum_div_float32  cpu:llvm   32x64            # ms",
    ]


def test_debug_2_adds_speed_origin_of_code_and_user_line(capsys):
    line = f"{HERE}:{softmax_of_sum.__code__.co_firstlineno + 6}"
    assert printed(capsys, debug=2) == [
        "[run] k1    dot_dot_float32                  cpu:llvm   32x64            # ms "
        f"# MB # GB/s # GFLOP/s  HOW {line}",
        "[run] k2    rows_exp_reduce_sum_div_float32  cpu:llvm   32x64            # ms "
        f"# MB # GB/s # GFLOP/s  HOW {line}",
    ]


def test_debug_2_counts_bytes_and_operations(capsys):
    with config.override(debug=2, debug_format="json"):
        softmax_of_sum()
    dot, rows = map(json.loads, capsys.readouterr().err.splitlines())
    assert dot["bytes"] == 4 * (32 * 48 + 48 * 64 + 32 * 64)
    assert dot["flops"] == 2 * 32 * 48 * 64
    # max, sub, exp, sum and div of each element; read once, written once.
    assert (rows["bytes"], rows["flops"]) == (2 * 4 * 32 * 64, 5 * 32 * 64)


def test_second_run_of_a_program_is_cached(capsys):
    with config.override(debug=2, debug_format="json"):
        softmax_of_sum()
        softmax_of_sum()
    hows = [json.loads(line)["how"] for line in capsys.readouterr().err.splitlines()]
    assert hows[2:] == ["cached", "cached"]


def test_debug_3_says_what_is_kept_and_what_joins(capsys):
    lines = printed(capsys, debug=3)
    assert "[point] exp f32[32, 64]                          yes  shared" in lines
    assert "[point] sub f32[32, 64]                          no   one_reader" in lines
    assert "[fuse] k2 <- reduce_sum f32[32]                  yes  same_rows" in lines
    assert "[fuse] k1 <- reduce_max f32[32]                  no   not_in_such_a_kernel: dot" in lines
    assert any(line.startswith("[pick] k1   ") for line in lines)


def test_every_refusal_has_a_reason(capsys):
    def work():
        x = torch.ones(2, 40000)
        y = torch.exp(x)
        (y.sum() + (y[:, :7] * 2).sum() + y.t().cumsum(0).sum()).item()

    with config.override(debug=3, debug_format="json"):
        work()
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    choices = [event for event in events if event["event"] in ("fuse", "point")]
    refusals = [event for event in choices if event["choice"] == "no"]
    assert refusals and all(event["reasons"] and event["reasons"][0] for event in choices)
    words = {event["reasons"][0].split(":")[0] for event in refusals}
    assert {"not_same_shape", "too_few_rows"} <= words, words


def test_debug_4_prints_the_code(capsys):
    lines = printed(capsys, debug=4)
    assert "[source] k1" in lines
    assert any(line.startswith("define void @") for line in lines)


def test_debug_5_shows_each_pass_that_changed_something(capsys):
    lines = printed(capsys, debug=5)
    assert "[diff] decompose" in lines and "[ir] build_kernels k1" in lines
    assert "[diff] expand_math k2" in lines
    # The contraction has no math functions, and separate_roots found nothing to do.
    assert "[diff] expand_math k1" not in lines and "[diff] separate_roots" not in lines
    assert "+    t3 = lt(t2, -104.0:float32)" in lines


def test_json_lines_are_objects_with_an_event(capsys):
    with config.override(debug=5, debug_format="json"):
        softmax_of_sum()
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {event["event"] for event in events} == {
        "run", "point", "fuse", "pick", "source", "diff", "ir"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("only", "kernels"), [("k2", {"k2"}), ("k7", set()), (f"{HERE}:0", set())]
)
def test_only_filters_kernels(capsys, only, kernels):
    with config.override(debug=4, debug_format="json", only=only):
        softmax_of_sum()
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {e["kernel"] for e in events if e["event"] in ("run", "source", "fuse")} == kernels


def test_only_a_line_shows_its_kernels(capsys):
    line = softmax_of_sum.__code__.co_firstlineno + 6
    with config.override(debug=2, debug_format="json", only=f"{HERE}:{line}"):
        watch.is_watched()
        softmax_of_sum()
    watch.is_watched()
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["kernel"] for line in lines] == ["k1", "k2"]


def test_only_a_pass_shows_its_diffs_alone(capsys):
    lines = printed(capsys, debug=5, only="pass:expand*")
    assert [line for line in lines if line.startswith("[")] == ["[diff] expand_math k2"]


def test_only_is_parsed():
    assert Only.parse("pass:fuse_*").allows_pass("fuse_elementwise")
    assert not Only.parse("k1").allows_kernel("k12", ())
    assert Only.parse("train.py:8").allows_kernel("k1", ["/home/me/train.py:8"])
    assert not Only.parse("train.py:8").allows_kernel("k1", ["/home/me/train.py:87"])
    assert not Only.parse("rain.py:8").allows_kernel("k1", ["/home/me/train.py:8"])
