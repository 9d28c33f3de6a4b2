"""DEBUG, ONLY and DEBUG_FORMAT: the lines have a stable form, and nothing is printed at 0."""

import json
import re

import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.engine import watch, watched_run
from rushlight.engine.listen import Listener
from rushlight.engine.only import Only
from rushlight.engine.realize import flush

HERE = "test_report.py"


@pytest.fixture(autouse=True)
def operands():
    """Values in memory (of kernels k0 and k1), so that no test sees how they are made."""
    x, w = torch.ones(32, 48), torch.ones(48, 64)
    flush((x._value(), w._value()))
    return x, w


def softmax_of_product(operands):
    """Two kernels: a contraction, then a softmax of its rows."""
    x, w = operands
    return torch.softmax(x @ w, dim=-1).tolist()


LINE = f"{HERE}:{softmax_of_product.__code__.co_firstlineno + 3}"


def heard(capsys, operands, work=softmax_of_product, **settings):
    """Lines on standard error with these settings."""
    with config.override(**settings):
        watch.is_watched()  # looks at the settings before the first node is recorded
        work(operands)
    watch.is_watched()
    return capsys.readouterr().err.splitlines()


def printed(capsys, operands, **settings):
    """The lines with numbers that vary masked."""
    text = "\n".join(heard(capsys, operands, **settings))
    text = re.sub(r" *\d+\.\d+ (ms|MB|GB/s|GFLOP/s)", r" # \1", text)
    return re.sub(r"(?<=GFLOP/s  )(built|disk|cached) *", "HOW ", text).splitlines()


def events(capsys, operands, **settings):
    lines = heard(capsys, operands, debug_format="json", **settings)
    return [json.loads(line) for line in lines]


def test_debug_0_prints_nothing_and_runs_whole_plans(capsys, operands, monkeypatch):
    monkeypatch.setattr(watched_run, "run_watched", lambda *_: pytest.fail("run kernel by kernel"))
    monkeypatch.setattr(watch, "CompileLog", lambda *_: pytest.fail("listened to"))
    assert heard(capsys, operands, check=1) == []


def test_debug_1_has_one_line_per_kernel(capsys, operands):
    assert printed(capsys, operands, debug=1) == [
        "[run] k2    dot_dot_float32                  cpu:llvm   32x64 # ms",
        "[run] k3    rows_exp_reduce_sum_div_float32  cpu:llvm   32x64 # ms",
    ]


def test_debug_2_adds_speed_origin_of_code_and_user_line(capsys, operands):
    assert printed(capsys, operands, debug=2) == [
        "[run] k2    dot_dot_float32                  cpu:llvm   32x64 # ms "
        f"# MB # GB/s # GFLOP/s  HOW {LINE}",
        "[run] k3    rows_exp_reduce_sum_div_float32  cpu:llvm   32x64 # ms "
        f"# MB # GB/s # GFLOP/s  HOW {LINE}",
    ]


def test_debug_2_counts_bytes_and_operations(capsys, operands):
    dot, rows = events(capsys, operands, debug=2)
    assert dot["bytes"] == 4 * (32 * 48 + 48 * 64 + 32 * 64)
    assert dot["flops"] == 2 * 32 * 48 * 64
    # max, sub, exp, sum and div of each element; read once, written once.
    assert (rows["bytes"], rows["flops"]) == (2 * 4 * 32 * 64, 5 * 32 * 64)


def test_second_run_of_a_program_is_cached(capsys, operands):
    events(capsys, operands, debug=2)
    assert [event["how"] for event in events(capsys, operands, debug=2)] == ["cached", "cached"]


def test_debug_3_says_what_is_kept_and_what_joins(capsys, operands):
    lines = printed(capsys, operands, debug=3)
    assert "[point] exp f32[32, 64]                          yes  shared" in lines
    assert "[point] sub f32[32, 64]                          no   one_reader" in lines
    assert "[fuse] k3 <- reduce_sum f32[32]                  yes  same_rows" in lines
    assert (
        "[fuse] k2 <- reduce_max f32[32]                  no   not_in_such_a_kernel: dot" in lines
    )
    assert any(line.startswith("[pick] k2   ") for line in lines)


def test_every_refusal_has_a_reason(capsys, operands):
    def work(operands):
        x = torch.ones(2, 40000)
        y = torch.exp(x)
        (y.sum() + (y[:, :70] * 2).sum() + y.t().cumsum(0).sum()).item()

    told = events(capsys, operands, work=work, debug=3)
    choices = [event for event in told if event["event"] in ("fuse", "point")]
    refusals = [event for event in choices if event["choice"] == "no"]
    assert refusals and all(event["reasons"] and event["reasons"][0] for event in choices)
    words = {event["reasons"][0].split(":")[0] for event in refusals}
    assert {"not_same_shape", "too_few_rows"} <= words, words


def test_debug_4_prints_the_code(capsys, operands):
    lines = printed(capsys, operands, debug=4)
    assert "[source] k2" in lines
    assert any(line.startswith("define void @") for line in lines)


def test_debug_5_shows_each_pass_that_changed_something(capsys, operands):
    lines = printed(capsys, operands, debug=5)
    assert "[diff] decompose" in lines and "[ir] build_kernels k2" in lines
    assert "[diff] expand_math k3" in lines
    # The contraction has no math functions, and separate_roots found nothing to do.
    assert "[diff] expand_math k2" not in lines and "[diff] separate_roots" not in lines
    assert "+    t3 = lt(t2, -104.0:float32)" in lines


def test_json_lines_are_objects_with_an_event(capsys, operands):
    assert {event["event"] for event in events(capsys, operands, debug=5)} == {
        "run", "point", "fuse", "pick", "source", "diff", "ir"
    }  # fmt: skip


@pytest.mark.parametrize(("only", "kernels"), [("k3", {"k3"}), ("k7", set()), (f"{HERE}:0", set())])
def test_only_filters_kernels(capsys, operands, only, kernels):
    told = events(capsys, operands, debug=4, only=only)
    assert {e["kernel"] for e in told if e["event"] in ("run", "source", "fuse")} == kernels


def test_only_a_line_shows_its_kernels(capsys, operands):
    told = events(capsys, operands, debug=2, only=LINE)
    assert [event["kernel"] for event in told] == ["k2", "k3"]


def test_only_a_pass_shows_its_diffs_alone(capsys, operands):
    lines = printed(capsys, operands, debug=5, only="pass:expand*")
    assert [line for line in lines if line.startswith("[")] == ["[diff] expand_math k3"]


def test_only_is_parsed():
    assert Only.parse("pass:fuse_*").allows_pass("fuse_elementwise")
    assert not Only.parse("k1").allows_kernel("k12", ())
    assert Only.parse("train.py:8").allows_kernel("k1", ["/home/me/train.py:8"])
    assert not Only.parse("train.py:8").allows_kernel("k1", ["/home/me/train.py:87"])
    assert not Only.parse("rain.py:8").allows_kernel("k1", ["/home/me/train.py:8"])


def test_level_six_names_every_rewrite_and_where_it_is_defined(capsys, operands):
    def work(operands):
        x = torch.ones(40, 3)
        torch.softmax(x.reshape(3, 40).reshape(40, 3), 1).amax(1).sum().item()

    told = events(capsys, operands, work=work, debug=6)
    rewrites = [event for event in told if event["event"] == "rewrite"]
    rules = {event["rule"] for event in rewrites}
    assert {"softmax", "unroll_reductions"} <= rules
    assert all(".py:" in event["defined"] and event["before"] for event in rewrites)


def test_kernels_are_told_in_the_order_in_which_they_run(operands):
    """A kernel that waits for its reader runs after kernels that were recorded later."""
    told, planned = [], []

    class Ears(Listener):
        def run(self, run):
            told.append(run.info.label)

        def stage(self, stage):
            if stage.name == "assemble":
                planned.extend(c.label for region in stage.state.plan.regions for c in region)

    x, w = operands
    late = w.t().sum(dim=-1).cumsum(0)
    first = torch.softmax(x @ w, dim=-1)
    with watch.listening(Ears()):
        (torch.softmax(first @ w.t(), dim=-1) @ w * late).tolist()
    assert told == planned
    assert len(set(told)) > 2
