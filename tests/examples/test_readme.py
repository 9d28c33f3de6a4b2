"""The program of the README runs as it stands."""

import re
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_twenty_lines_of_the_readme_learn_something(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.S)
    assert "range(500)" in program
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a step that cannot be captured is told by a warning
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    assert 0 <= float(capsys.readouterr().out) < 0.01
