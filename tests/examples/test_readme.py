"""The program of the README runs as it stands."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


# What setuptools puts into each venv of Python 3.11: code of others in every first import.
FINDER = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        return None
sys.meta_path.insert(0, Finder())
"""


def readme_programs() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.S)


def readme_program() -> str:
    (program,) = [program for program in readme_programs() if "range(500)" in program]
    return program


def test_attention_of_the_readme_gives_gradients():
    (program,) = [program for program in readme_programs() if "flex_attention" in program]
    names: dict = {"__name__": "readme"}
    exec(compile(program.replace("4096", "300"), "README.md", "exec"), names)
    assert names["out"].shape == (1, 8, 300, 64)
    assert all(float(names[x].grad.abs().sum()) > 0 for x in ("q", "k", "v", "slopes"))
    assert len(readme_programs()) == 2


def test_twenty_lines_of_the_readme_learn_something(capsys):
    program = readme_program()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a step that cannot be captured is told by a warning
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    assert 0 <= float(capsys.readouterr().out) < 0.01


def run_as_user(program: str, tmp_path) -> str:
    """What a program prints in a process of its own, in which a warning is an error."""
    file = tmp_path / "program.py"
    file.write_text(FINDER + program, encoding="utf-8")
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_first_imports_inside_a_compiled_step_are_no_hindrance(tmp_path):
    program = readme_program().replace("range(500)", "range(5)")
    out = run_as_user(program + "print(step.captures, step.replays)\n", tmp_path)
    captures, replays = map(int, out.splitlines()[-1].split())
    assert captures + replays == 5
    assert replays >= 1


def test_step_may_import_torch_itself_where_rushlight_stands_for_it(tmp_path):
    program = """
import rushlight.as_torch
import torch
@torch.compile
def step(x):
    import torch.nn.functional as F
    return F.relu(x) * 2
for _ in range(5):
    y = step(torch.ones(3))
print(step.replays, y.tolist())
"""
    replays, y = run_as_user(program, tmp_path).split(" ", 1)
    assert int(replays) >= 1
    assert y == "[2.0, 2.0, 2.0]\n"
