"""Measured schedules of contractions: the space, the race, what is kept and told."""

from __future__ import annotations

import io

import pytest

import rushlight as torch
from rushlight.backends.llvm import BACKEND, space, tune
from rushlight.backends.llvm.caps import find_caps, split_target
from rushlight.backends.llvm.dot import plan_dot
from rushlight.backends.llvm.explain import picks
from rushlight.backends.llvm.schedule import ThinSchedule
from rushlight.backends.llvm.space import name_of, space_of
from rushlight.backends.llvm.store import dump, restore
from rushlight.backends.llvm.tune import build_tuned
from rushlight.base.config import config
from rushlight.base.dtypes import bfloat16, float32, float64, int32
from rushlight.base.errors import OutOfMemoryError
from rushlight.engine.realize import PROGRAMS
from rushlight.ir.symint import Var
from rushlight.runtime import tuning
from tests.unit.backends.dot_cases import (
    AVX2,
    AVX512,
    GENERIC,
    Case,
    compile_case,
    inputs,
    matmul,
    result_of,
    same_bits,
)
from tests.unit.backends.llvm_run import run

TILES = find_caps("+emulated-amx", 2)


@pytest.fixture(autouse=True)
def nothing_known(tmp_path, monkeypatch, request):
    if "every_member" not in request.node.name:  # a small space is built faster
        monkeypatch.setattr(space, "MOST_BLOCKS", 1)
        monkeypatch.setattr(space, "MOST_NEAR", 1)
    monkeypatch.setattr(tune, "ROUND_S", 1e-5)
    monkeypatch.setattr(tune, "disk_cache", lambda: tuning.DiskCache(tmp_path / "tuned", 1 << 20))
    tuning.forget()
    yield
    tuning.forget()


def schedules(case: Case, caps) -> dict:
    target = split_target(caps.features)
    return space_of(*plan_dot(case.grid, target, caps.threads), target)


CASES = {
    "plain": (matmul(1, 70, 200, 300), AVX512),
    "turned": (matmul(1, 70, 200, 300, True, True), AVX512),
    "long": (matmul(1, 30, 90, 1500, False, True), AVX512),
    "batch": (matmul(3, 45, 130, 257), AVX2),
    "double": (matmul(1, 61, 129, 260, dtype=float64), GENERIC),
    "pairs": (matmul(1, 61, 129, 301, False, True, dtype=bfloat16, out=float32), AVX512),
    "ints": (matmul(1, 61, 129, 260, dtype=int32), AVX512),
    "tiles": (matmul(1, 70, 90, 600, False, True, dtype=bfloat16, out=float32), TILES),
    "few rows": (matmul(1, 3, 900, 300), AVX512),
}


@pytest.mark.parametrize("name", CASES)
def test_every_member_of_the_space_gives_the_same_bits(name):
    case, caps = CASES[name]
    members = schedules(case, caps)
    assert len(members) >= 3
    arrays = inputs(case)
    want = result_of(case, caps, arrays=arrays)
    for schedule in members.values():
        assert same_bits(want, result_of(case, caps, schedule, arrays)), schedule


def test_the_chosen_schedule_is_first_and_names_are_unique():
    case, caps = CASES["plain"]
    members = schedules(case, caps)
    chosen = plan_dot(case.grid, split_target(caps.features), caps.threads)[1]
    assert next(iter(members.values())) == chosen
    assert all(name == name_of(schedule) for name, schedule in members.items())


def test_blocks_are_whole_and_fit_the_registers():
    for case, caps in CASES.values():
        for s in schedules(case, caps).values():
            if isinstance(s, ThinSchedule) or s.tiles:
                continue
            assert s.mc % s.rows == 0 and s.nc % s.columns == 0
            assert s.rows * s.vectors + s.vectors + 1 <= split_target(caps.features).registers


def product() -> Case:
    return matmul(1, 64, 192, 256)


def test_the_measured_kernel_has_the_bits_and_says_what_was_measured():
    case = product()
    (made,) = build_tuned([case.program], AVX512)
    arrays = inputs(case)
    want = result_of(case, arrays=arrays)
    assert run(made, arrays) == 0 and same_bits(want, arrays[-1])
    (decision,) = made.decisions
    assert decision.choice in schedules(case, AVX512)
    assert decision.reasons[0].startswith("tuned: ") and decision.reasons[1] == "measured"
    assert len(decision.reasons) == 2 + len(schedules(case, AVX512))
    assert picks(made, AVX512)[0] == decision
    assert restore(case.program, dump(made)).decisions == made.decisions


def test_the_fastest_one_is_taken(monkeypatch):
    case = product()
    members = schedules(case, AVX512)
    wanted = list(members)[3]

    def seconds(run, count):
        return 0.5 if run is races[0].runs.get(wanted) else 1.0

    races = []
    start = tune.Race.__init__

    def noted(self, *args):
        start(self, *args)
        races.append(self)

    monkeypatch.setattr(tune.Race, "__init__", noted)
    monkeypatch.setattr(tune, "_seconds", seconds)
    (made,) = build_tuned([case.program], AVX512)
    assert made.decisions[0].choice == wanted
    assert "2.00 times as fast" in made.decisions[0].reasons[0]
    other = compile_case(case, schedule=members[wanted])
    assert made.launches[0].local_bytes == other.launches[0].local_bytes


def test_what_is_not_faster_alone_is_not_taken():
    times = {"first": 2.0, "second": 1.0}
    candidates = {name: lambda name=name: times[name] for name in times}
    asked = []

    def confirm(first, best):
        asked.append((first, best))
        return False

    assert tuning.tune("duel", candidates, None, confirm).name == "first"
    assert asked == [("first", "second")]


def test_a_second_process_measures_nothing(monkeypatch):
    case = product()
    (first,) = build_tuned([case.program], AVX512)
    tuning.forget()

    def measured(self):
        raise AssertionError("it was measured again")

    monkeypatch.setattr(tune.Race, "_measure", measured)
    (again,) = build_tuned([case.program], AVX512)
    assert again.decisions[0].choice == first.decisions[0].choice
    assert again.decisions[0].reasons[1] == "cached"
    for other in ("cpu", "OWN"):  # another CPU, another version
        with monkeypatch.context() as patch:
            patch.setattr(tune, other, (lambda: "x") if other == "cpu" else "x")
            tuning.forget()
            with pytest.raises(AssertionError, match="again"):
                build_tuned([case.program], AVX512)


def test_a_schedule_that_cannot_be_built_is_left_out(monkeypatch):
    case, real = product(), tune._made
    bad = list(schedules(case, AVX512))[2]

    def made(program, caps, schedule, decisions=()):
        if name_of(schedule) == bad:
            raise RuntimeError("no such code")
        return real(program, caps, schedule, decisions)

    monkeypatch.setattr(tune, "_made", made)
    (found,) = build_tuned([case.program], AVX512)
    assert f"{bad}: RuntimeError: no such code" in found.decisions[0].reasons


@pytest.mark.parametrize("where", ["allocate", "_made"])
def test_where_nothing_can_be_measured_the_kernel_is_made_as_usual(where, monkeypatch):
    def fails(*args):
        raise OutOfMemoryError(1, 2, 3)

    monkeypatch.setattr(tune, where, fails)
    (found,) = build_tuned([product().program], AVX512)
    assert found.decisions == ()
    arrays = inputs(product())
    assert run(found, arrays) == 0 and arrays[-1].any()


def test_sizes_that_vary_and_huge_operands_are_not_measured(monkeypatch):
    vary = matmul(1, Var("rows", 1), 64, 64)
    assert build_tuned([vary.program], AVX512)[0].decisions == ()
    monkeypatch.setattr(tune, "MOST_BYTES", 1000)
    assert build_tuned([product().program], AVX512)[0].decisions == ()


def test_a_terminal_shows_how_far_it_is(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for shows in (True, False):
        monkeypatch.setattr(tune.sys, "stderr", Terminal())
        with config.override(tuning_progress=shows):
            tuning.forget()
            progress = tune.Progress("k1", 4)
            for _ in range(4):
                progress.step()
            progress.end()
        text = tune.sys.stderr.getvalue()
        assert ("[tune] k1 [##########..........]" in text) is shows


# ---- through `compile` ---------------------------------------------------------------------------


@pytest.fixture
def fresh():
    PROGRAMS._families.clear()
    yield
    PROGRAMS._families.clear()


def tuned_call(**how):
    x, w = torch.randn(70, 300), torch.randn(300, 150)
    with config.override(cache=False):
        plain, call = torch.compile(lambda: x @ w), torch.compile(lambda: x @ w, **how)
        for _ in range(3):
            found, want = call(), plain()
        assert found.tolist() == want.tolist()
    assert plain.tuned == {} and ": tuned: " not in torch.compile_report(plain)
    for decision in call.tuned.values():
        assert f"is {decision.choice}: {decision.reasons[0]}" in torch.compile_report(call)
    return call.tuned


@pytest.mark.parametrize(
    "how",
    [
        {"mode": "max-autotune"},
        {"mode": "max-autotune-no-cudagraphs"},
        {"options": {"max_autotune": True}},
        {"options": {"max_autotune_gemm": True}},
    ],
    ids=str,
)
def test_a_mode_measures(how, fresh):
    (decision,) = tuned_call(**how).values()
    assert decision.reasons[0].startswith("tuned: ")


@pytest.mark.parametrize("mode", [None, "default", "reduce-overhead"])
def test_other_modes_do_not(mode, fresh):
    assert tuned_call(mode=mode) == {}


@pytest.mark.parametrize("name", ["max_autotune", "max_autotune_gemm"])
def test_the_settings_of_inductor_act(name, fresh):
    x, w = torch.randn(70, 300), torch.randn(300, 150)
    with torch._inductor.config.patch(**{name: True}), config.override(cache=False):
        call = torch.compile(lambda: x @ w)
        for _ in range(3):
            call()
    assert len(call.tuned) == 1


def test_a_module_whose_loss_is_outside_is_measured_with_its_backward(fresh, monkeypatch):
    seen = []
    real = tune._fastest
    monkeypatch.setattr(tune, "_fastest", lambda *args: seen.append(1) or real(*args))
    model = torch.compile(torch.nn.Linear(300, 150), mode="max-autotune")
    with config.override(cache=False):
        for _ in range(3):
            model(torch.randn(70, 300)).square().mean().backward()
            torch.flush()
        assert len(seen) >= 2
        count = len(seen)
        found = list(model.tuned.values())
        assert len(found) >= 2 and all(d.reasons[0].startswith("tuned: ") for d in found)
        torch.nn.Linear(280, 150)(torch.randn(70, 280)).square().mean().backward()
        torch.flush()
        assert len(seen) == count
        with config.override(max_autotune=True):  # of other code
            torch.nn.Linear(290, 150)(torch.randn(70, 290)).square().mean().backward()
            torch.flush()
    assert len(model.tuned) == len(found)


@pytest.mark.parametrize("asked", [True, False])
def test_a_setting_measures_for_a_module_whose_loss_is_outside_too(asked, fresh):
    with torch._inductor.config.patch(max_autotune=asked), config.override(cache=False):
        model = torch.compile(torch.nn.Linear(300, 150))
        for _ in range(4):
            model.zero_grad()
            model(torch.randn(70, 300)).square().mean().backward()
        assert model._compiled.replays == 2 and bool(model.tuned) is asked
        before = len(model.tuned)
        model(torch.randn(70, 300)).tolist()
        count = len(model.tuned)
        assert (count > before) is asked
        with config.override(max_autotune=True):  # of other code, after a look
            torch.nn.Linear(270, 150)(torch.randn(70, 270)).tolist()
    assert len(model.tuned) == count


def test_some_sizes_get_programs_of_their_own(fresh):
    w = torch.randn(300, 150)
    call = torch.compile(lambda x: x @ w, mode="max-autotune")
    with config.override(cache=False):
        for rows in (40, 50, 60):
            for _ in range(3):
                call(torch.randn(rows, 300))
    assert len(call.tuned) == 3


def test_explain_says_it(fresh):
    x, w = torch.randn(70, 300), torch.randn(300, 150)
    with config.override(max_autotune=True, cache=False), torch.explain() as seen:
        (x @ w).tolist()
    (page,) = seen.kernels.values()
    assert page.picks[0].reasons[0].startswith("tuned: ")


def test_only_the_setting_makes_the_backend_measure(monkeypatch):
    def no(*args):
        raise AssertionError("measured")

    monkeypatch.setattr(tune, "_fastest", no)
    assert BACKEND.build([product().program], AVX512)[0].decisions == ()
    with config.override(max_autotune=True), pytest.raises(AssertionError, match="measured"):
        BACKEND.build([product().program], AVX512)
