"""`rushlight doctor`: what this machine offers, what is missing and why.

Every look is made by `doctor_impl`, where a failure becomes a line of the report: a doctor that
falls ill helps nobody.
"""

import argparse

from .doctor_impl import Line, examine

NAME = "doctor"
HELP = "show devices, code generators, CPU features, threads and the cache, and what is missing"

MARKS = {"ok": "ok ", "info": "   ", "warning": "!  ", "problem": "X  "}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no options."""


def format_report(sections: dict[str, list[Line]]) -> str:
    """Sections with aligned lines; the mark in front says how each thing stands."""
    lines = []
    for title, content in sections.items():
        lines.append(title)
        width = max((len(line.name) for line in content), default=0)
        lines += [f"  {MARKS[line.state]}{line.name:<{width}}  {line.text}" for line in content]
        lines.append("")
    return "\n".join(lines)


def run(args: argparse.Namespace) -> int:
    """Print the report; exit status 1 if something that Rushlight needs is broken."""
    sections = examine()
    print(format_report(sections))
    problems = [
        line for content in sections.values() for line in content if line.state == "problem"
    ]
    if problems:
        print(f"{len(problems)} problem(s): " + ", ".join(line.name for line in problems))
    return 1 if problems else 0
