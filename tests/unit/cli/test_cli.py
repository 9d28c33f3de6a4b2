"""The command line: subcommands, exit statuses, and a doctor that survives what is broken."""

import importlib
import subprocess
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from rushlight import cli
from rushlight.base.config import config
from rushlight.cli import demo, doctor, doctor_impl
from rushlight.cli.doctor_impl import Line
from rushlight.compiler import target


def test_no_subcommand_prints_help_and_gives_two(capsys):
    assert cli.main([]) == 2
    assert "doctor" in capsys.readouterr().out


def test_unknown_option_of_doctor_is_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", "--what"])
    assert stop.value.code == 2
    assert "--what" in capsys.readouterr().err


def test_demo_hands_its_options_to_the_example(monkeypatch, tmp_path, capsys):
    example = tmp_path / "gpt.py"
    body = "    print(argv, argparse.ArgumentParser().prog)\n    return 5\n"
    example.write_text(f"import argparse\ndef main(argv):\n{body}")
    monkeypatch.setattr(demo, "find_example", lambda: example)
    assert cli.main(["demo", "--steps", "3", "--help"]) == 5
    assert "['--steps', '3', '--help'] rushlight demo" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["rushlight", "rushlight.cli"])
def test_the_module_is_the_command(module):
    command = [sys.executable, "-m", module, "mask", "causal", "--length", "2", "--block", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].startswith("██")


def test_demo_finds_the_example_of_the_checkout(root):
    assert demo.find_example() == root / "examples" / "gpt.py"


def test_demo_without_the_example_says_so(monkeypatch, capsys):
    monkeypatch.setattr(demo, "find_example", lambda: None)
    assert cli.main(["demo"]) == 1
    assert "gpt.py" in capsys.readouterr().err


def test_names_without_a_match_says_so(capsys):
    assert cli.main(["names", "no_such_name"]) == 1
    shown = capsys.readouterr()
    assert (shown.out, "'no_such_name'" in shown.err) == ("", True)


def test_doctor_reports_every_section(capsys):
    assert cli.main(["doctor"]) in (0, 1)
    out = capsys.readouterr().out
    for part in ("Packages", "numpy", "Processor", "features", "Code generators", "Cache"):
        assert part in out


def test_doctor_names_devices_and_what_they_are(monkeypatch):
    opencl = importlib.import_module("rushlight.backends.opencl")
    caps = target.Caps("opencl", features="Some platform||A GPU", group_threads=256, subgroup=32)
    found = replace(
        opencl.BACKEND, find=lambda: caps,
        serves=lambda kind: target.Missing("it is not") if kind == "xpu" else None,
    )  # fmt: skip
    monkeypatch.setattr(opencl, "BACKEND", found)
    lines = {line.name: line for line in doctor_impl.examine_backends()}
    text = "opencl, groups of 256 threads, subgroups of 32 (Some platform, A GPU), "
    assert lines["opencl"] == Line("ok", "opencl", text + 'torch.device("opencl")')
    assert lines["xpu"] == Line("info", "xpu", "not here: it is not")
    if lines["metal"].state != "ok":
        assert 'not here, nor torch.device("mps"): ' in lines["metal"].text


def test_doctor_status_is_one_with_a_problem(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "examine", lambda: {"A": [Line("problem", "x", "is broken")]})
    assert cli.main(["doctor"]) == 1
    assert "1 problem(s): x" in capsys.readouterr().out


def test_doctor_status_is_zero_with_warnings(monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda: {"A": [Line("warning", "x", "is odd")]})
    assert cli.main(["doctor"]) == 0


def test_broken_examination_becomes_a_line():
    def look():
        raise RuntimeError("no luck")

    lines = doctor_impl._guarded("Cache", look)
    assert lines == [Line("problem", "cache", "RuntimeError: no luck")]


@dataclass
class Caps:
    name: str = "some CPU"
    vector_bytes: int = 64
    threads: int = 2


@dataclass
class Missing:
    reason: str
    fix: str = ""


def backend_line(monkeypatch, find):
    module = SimpleNamespace(BACKEND=SimpleNamespace(find=find))
    monkeypatch.setattr(doctor_impl.importlib, "import_module", lambda name: module)
    (line,) = doctor_impl._examine_backend("abacus")
    return line


def test_backend_that_is_there_shows_its_capabilities(monkeypatch):
    line = backend_line(monkeypatch, Caps)
    assert line == Line("ok", "abacus", "some CPU, vectors of 64 bytes, 2 threads")


def test_backend_that_is_missing_shows_reason_and_fix(monkeypatch):
    line = backend_line(monkeypatch, lambda: Missing("no beads", "buy beads"))
    assert line == Line("info", "abacus", "not here: no beads (buy beads)")


def test_backend_of_the_cpu_must_be_there(monkeypatch):
    with config.override(backend="abacus"):
        assert backend_line(monkeypatch, lambda: Missing("no beads")).state == "problem"


def test_backend_that_fails_shows_its_error(monkeypatch):
    line = backend_line(monkeypatch, lambda: 1 / 0)
    assert line == Line("info", "abacus", "ZeroDivisionError: division by zero")


def test_unknown_backend_is_a_problem():
    with config.override(backend="abacus"):
        lines = doctor_impl.examine_backends()
    assert any(line.state == "problem" and line.name == "abacus" for line in lines)


def test_open_cache_folder_is_a_warning(tmp_path):
    tmp_path.chmod(0o755)
    with config.override(cache_dir=str(tmp_path)):
        first = doctor_impl.examine_cache()[0]
        assert (first.state, "chmod 700" in first.text) == ("warning", True)
        tmp_path.chmod(0o700)
        assert doctor_impl.examine_cache()[0].state == "ok"


def test_changed_setting_is_listed():
    with config.override(spin_us=7):
        assert Line("info", "RUSHLIGHT_SPIN_US", "7 (from the override)") in (
            doctor_impl.examine_settings()
        )


@pytest.mark.parametrize(
    ("source", "last"),
    [
        (
            "import torch\ndef f(x):\n    return x / 0\nf(torch.ones(1).item())\n",
            "ZeroDivisionError",
        ),
        ("import torch\ntorch.ones(2) + torch.ones(3)\n", "RuntimeError: The size of tensor"),
        ("def f(:\n", "SyntaxError"),
    ],
)
def test_run_shows_the_error_of_the_program_without_the_runner(tmp_path, source, last):
    program = tmp_path / "program.py"
    program.write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", str(program)], capture_output=True, text=True
    )
    assert done.returncode == 1 and last in done.stderr.splitlines()[-1], done.stderr
    assert "runpy" not in done.stderr and "cli" not in done.stderr, done.stderr
    lines = done.stderr.splitlines()
    assert str(program) in lines[0 if last == "SyntaxError" else 1], done.stderr
