"""The benchmark runner: workloads are complete, failures are reported, numbers are compared."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from rushlight.backends.llvm.caps import AMX, AVX512, split_target
from rushlight.backends.llvm.jit import assembly_of

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture
def run(monkeypatch):
    """The runner's module, found as its own command finds it."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import run

    return run


def test_list_of_workloads_is_complete(run):
    files = {path.stem for path in (BENCHMARKS / "workloads").glob("*.py")}
    # gpt.py is the model that two workloads share.
    assert set(run.workloads.NAMES) == files - {"__init__", "gpt"}


def test_every_workload_has_a_title_and_cases(run):
    for name in run.workloads.NAMES:
        workload = run.workloads.load(name)
        assert workload.TITLE
        assert workload.cases()


def test_jax_is_a_rival_where_the_goals_name_it(run):
    cases = {name: run.workloads.load(name).cases() for name in run.workloads.NAMES}
    with_jax = {(n, c) for n, of in cases.items() for c in of if run.workloads.has_jax(n, c)}
    assert {("mlp", "compiled"), ("softmax", "rows"), ("elementwise", "eager")} <= with_jax
    assert all(callable(run.workloads.load(name).build_jax) for name, _ in with_jax)
    for name in run.workloads.NAMES:
        assert set(getattr(run.workloads.load(name), "JAX_CASES", ())) <= set(cases[name])


def test_jax_has_a_column_of_its_own(run):
    row = {"workload": "w", "case": "c", "goal": "", "peaks": {}}
    row["results"] = {m: measured(run, s, {}) for m, s in
                      (("rushlight", 2.0), ("torch", 6.0), ("jax", 3.0))}  # fmt: skip
    for one in row["results"].values():
        one.cpu_seconds = [1.0]
    assert "jax: 3 s (1.50)" in run.report.line(row)
    assert "| 3.00 | 3 s (1.50) |" in run.report.markdown([row], {})


def test_only_chooses_by_part_of_the_name(run):
    assert run.chosen_cases("softmax/") == [("softmax", "rows")]
    assert {workload for workload, _ in run.chosen_cases("matmul/")} == {"matmul"}
    assert run.chosen_cases("nothing of the kind") == []


@pytest.mark.parametrize(
    ("ours", "theirs", "error"),
    [
        ([[1.0, 2.0]], [[1.0, 2.0]], 0.0),
        ([[1.0, 3.0]], [[1.0, 2.0]], 0.5),
        ([[1.0]], [[1.0, 2.0]], float("inf")),
        ([[float("nan")]], [[1.0]], float("inf")),
        ([[]], [[]], 0.0),
    ],
)
def test_relative_error(run, ours, theirs, error):
    arrays = [[np.array(values) for values in side] for side in (ours, theirs)]
    assert run.relative_error(*arrays) == error


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1234, "0.123"), (45.67, "45.7"), (2345.6, "2346"), (23456, "23.5k"), (7.7e6, "7.7M")],
)
def test_quantity_has_three_digits(run, value, text):
    assert run.report.quantity(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-6, "4.56 us"), (3e-9, "3 ns")]
)
def test_duration_has_a_unit(run, seconds, text):
    assert run.report.duration(seconds) == text


def test_missing_framework_is_a_reason_and_the_run_goes_on(run, monkeypatch, tmp_path, capsys):
    frameworks = {"no_such_framework": sys.executable}
    monkeypatch.setattr(run, "find_frameworks", lambda args: frameworks)
    monkeypatch.setattr(run, "measure_peaks", lambda threads: {"byte": 1e10})
    assert run.main(["--only", "softmax/", "--out", str(tmp_path)]) == 0
    assert "no_such_framework failed: ModuleNotFoundError" in capsys.readouterr().out
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert "ModuleNotFoundError" in rows[0]["results"]["no_such_framework"]["failed"]
    assert "failed" in (tmp_path / "results.md").read_text()


def test_crash_of_a_worker_is_a_reason(run, tmp_path):
    crash = tmp_path / "crash"
    crash.write_text("#!/bin/sh\necho last words >&2\nexit 7\n")
    crash.chmod(0o755)
    with pytest.raises(run.Failed, match="ended with 7: last words"):
        run.Worker(str(crash), "m", "softmax", "rows", run.parse([]))


def test_turns_alternate_and_the_first_two_are_not_counted(run, monkeypatch):
    order = []

    class Clock:
        work, most_reps = {"byte": 1e9}, 3

        def __init__(self, python, module, *rest):
            self.module = module

        def ask(self, request):
            if request == "run":
                order.append(self.module)
            seconds = float(len(order))
            return {"seconds": seconds, "cpu": seconds / 2, "peak_mb": 1.0, "extra_mb": None}

        def close(self):
            order.append(f"close {self.module}")

    monkeypatch.setattr(run, "Worker", Clock)
    results = run.measure({"rushlight": "", "torch": ""}, "softmax", "rows", run.parse([]))
    assert order == ["rushlight", "torch"] * 5 + ["close rushlight", "close torch"]
    assert results["rushlight"].first_s == 1.0
    assert results["rushlight"].seconds == [5.0, 7.0, 9.0]
    assert (results["rushlight"].first_cpu_s, results["rushlight"].median_cpu_s) == (0.5, 3.5)
    assert run.report.ratio(results) == pytest.approx(8 / 7)


def measured(run, seconds, work):
    return run.Measured(seconds=[seconds], work=work)


def test_rates_show_their_share_of_the_peak(run):
    m = measured(run, 0.5, {"byte": 1e10, "token": 4.0})
    assert run.report.rate(m, {"byte": 4e10}) == "20 GB/s (50 %), 8 tokens/s"
    assert run.report.rate(m, {}) == "20 GB/s, 8 tokens/s"


def test_growth_puts_each_size_beside_the_one_before(run):
    rows = [
        {"workload": "w", "case": f"f n={n}", "results": {"torch": measured(run, t, {"byte": n})}}
        for n, t in ((2, 1.0), (4, 3.0), (8, 4.5))
    ]
    heading, line = run.report.growth_lines(rows)[1:]
    assert heading == "cost against size:"
    assert line.split() == "w f torch 2 1 s, 4 x3.0 (2), 8 x1.5 (2)".split()
    assert run.report.growth_lines(rows[:1]) == []


def test_the_loop_of_tile_registers_is_nothing_but_products(run):
    import peak

    features = ",".join(f"+{name}" for name in ("sse2", "avx", "avx2", *AVX512, *AMX))
    target = split_target(f"sapphirerapids|{features}|x86_64-unknown-linux-gnu")
    assert target.tiles == "amx"
    text = assembly_of(peak.tiles_text("tiles"), target)
    loop = text.split("tilezero", 1)[1]
    assert loop.count("tdpbf16ps") == peak.TILE_SUMS
    assert "ldtilecfg" in text and "tilerelease" in loop and "tileload" not in text


def test_each_budget_has_a_figure(run, monkeypatch, capsys):
    import budgets

    monkeypatch.setattr(budgets, "REPETITIONS", 3)
    assert budgets.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(" us, budget ")[0].split("  ")[0] for line in lines] == [*budgets.BUDGETS]
    assert all(us > 0 for us in budgets.measure().values())


@pytest.mark.slow
def test_peaks_are_measured(run):
    peaks = run.measure_peaks(1)
    # Any machine copies and multiplies at more than this, and none at a thousand times as much.
    assert 1e8 < peaks["byte"] < 1e12
    assert 1e9 < peaks["flop"] < 1e13
