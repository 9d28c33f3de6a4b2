"""`rushlight explain script.py:LINE [options of the script]`: what a line of a program became.

`import torch` finds Rushlight in the script.

The engine is imported by name when the command runs: the other commands do without it.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from . import script

NAME = "explain"
HELP = "run a script and show what one of its lines became: ops, kernels, why, source, times"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", action="store_true", help="also the code of the backend")
    parser.add_argument("--html", metavar="FILE", help="write a page in place of the text")
    parser.add_argument(
        "script", help="script.py:LINE, or script.py for an overview of all its kernels"
    )
    parser.add_argument("script_args", nargs=argparse.REMAINDER, help="options of the script")


def split_place(place: str) -> tuple[str, str]:
    """("train.py", "train.py:87") of "train.py:87"; the line is "" when there is none."""
    path, colon, line = place.rpartition(":")
    return (path, place) if colon and line.isdigit() else (place, "")


def run_script(path: str, args: list[str]) -> tuple[Any, int]:
    """Run a script as its own main program; what was seen and its exit status."""
    install = importlib.import_module("rushlight.names.install")
    explained = importlib.import_module("rushlight.engine.explain").explained
    with install.install_as_torch(), explained() as seen:
        status = script.run_script(path, args)
    return seen, status


def run(args: argparse.Namespace) -> int:
    path, line = split_place(args.script)
    if not Path(path).is_file():
        print(f"explain: there is no file {path!r}", file=sys.stderr)
        return 2
    seen, status = run_script(path, args.script_args)
    if args.html:
        page = importlib.import_module("rushlight.engine.explain_html").page
        Path(args.html).write_text(page(seen, line, args.source), encoding="utf-8")
        print(f"wrote {args.html}")
    else:
        print(seen.at(line, args.source) if line else seen)
    return status or int(bool(line) and not seen.has(line))
