"""tools/gpu_check.sh, as far as a machine without a GPU can go: its steps, and what it runs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rushlight
from rushlight.cli import COMMANDS

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tools" / "gpu_check.sh"


def compare_module():
    spec = importlib.util.spec_from_file_location("gpu_compare", ROOT / "tools" / "gpu_compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_it_names_is_there() -> None:
    assert subprocess.run(["bash", "-n", str(SCRIPT)]).returncode == 0
    text = SCRIPT.read_text()
    assert {*re.findall(r"rushlight\.cli (\w+)", text)} <= {command.NAME for command in COMMANDS}
    files = re.findall(r"tools/\w+\.py", text)
    assert files and all((ROOT / name).exists() for name in files)


def test_every_step_is_run_in_order_and_none_when_no_time_is_left(tmp_path) -> None:
    """With an imitation of Python that writes down what it is asked for."""
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    python.chmod(0o755)
    (tmp_path / "tools").mkdir()
    script = tmp_path / "tools" / SCRIPT.name
    script.write_text(SCRIPT.read_text())
    environ = {**os.environ, "PYTHON": str(python)}
    assert subprocess.run(["bash", str(script), "60"], env=environ).returncode == 0
    asked = log.read_text().splitlines()
    wanted = ["triton", "nvidia-cutlass-dsl", "doctor", "gpu_compare.py", "conformance triton"]
    assert len(asked) == len(wanted)
    assert all(word in line for word, line in zip(wanted, asked, strict=True))
    log.unlink()
    assert subprocess.run(["bash", str(script), "5"], env=environ).returncode == 1
    assert not log.exists()
    assert "no time left" in (tmp_path / "gpu_check" / "compare.txt").read_text()


def test_a_step_that_fails_is_told_and_the_next_ones_run(tmp_path) -> None:
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho "$@" >> {log}\n'
        'case "$@" in *doctor*) exit 3;; *compare*) sleep 9;; esac\n'
    )
    python.chmod(0o755)
    (tmp_path / "tools").mkdir()
    script = tmp_path / "tools" / SCRIPT.name
    script.write_text(SCRIPT.read_text().replace("step compare 150", "step compare 1"))
    environ = {**os.environ, "PYTHON": str(python)}
    done = subprocess.run(["bash", str(script), "60"], env=environ, capture_output=True, text=True)
    assert done.returncode == 1 and len(log.read_text().splitlines()) == 5
    assert "doctor: status 3" in done.stdout and "compare: status 124" in done.stdout
    assert done.stdout.splitlines()[-1] == "failed: doctor compare"


def test_packages_that_are_there_already_need_not_be_fetched(tmp_path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase "$@" in *pip*) exit 1;; esac\n')
    python.chmod(0o755)
    (tmp_path / "tools").mkdir()
    script = tmp_path / "tools" / SCRIPT.name
    script.write_text(SCRIPT.read_text())
    environ = {**os.environ, "PYTHON": str(python)}
    done = subprocess.run(["bash", str(script), "60"], env=environ, capture_output=True, text=True)
    assert done.returncode == 0 and "install: status 1" in done.stdout


def test_what_is_wrong_or_fails_is_told(monkeypatch, capsys) -> None:
    module = compare_module()

    def good(torch, device):
        return torch.ones(2)

    def endless(torch, device):
        return torch.ones(2) / 0

    def broken(torch, device):
        raise RuntimeError("no kernel image\nmore")

    monkeypatch.setattr(module, "WORKS", (good, endless, broken))
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    assert module.main("cpu") == 1
    lines = capsys.readouterr().out.splitlines()
    assert "WRONG" not in lines[0] and lines[1].endswith("not finite   WRONG")
    assert "RuntimeError: ['no kernel image']" in lines[2] and lines[3] == "1 of 3 are right"
    twice = SimpleNamespace(ones=lambda n: rushlight.ones(n) * 2)
    line, is_wrong = module.compared(good, rushlight, twice, "cpu")
    assert is_wrong and "relative difference 5.0e-01" in line


@pytest.mark.parametrize("number", range(9))
def test_what_is_compared_can_be_computed(number: int) -> None:
    """On the CPU: that the programs are right, not that a GPU runs them."""
    work = compare_module().WORKS[number]
    found = work(rushlight, "cpu").detach().numpy()
    assert found.dtype == np.float32 and np.isfinite(found).all() and np.abs(found).max() > 0
