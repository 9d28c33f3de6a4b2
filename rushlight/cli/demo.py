"""`rushlight demo`: run the example that trains a small GPT, with the example's own options."""

import argparse
import runpy
import sys
from pathlib import Path

from . import script

NAME = "demo"
HELP = "train a small GPT on Python's help texts and let it write (options: demo --help)"
PASSES_OPTIONS = True

PACKAGE = Path(__file__).resolve().parents[1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All options belong to the example."""


def find_example() -> Path | None:
    """The example in the checkout, or the copy that an installed package carries."""
    places = (PACKAGE.parent / "examples" / "gpt.py", PACKAGE / "cli" / "demo_gpt.py")
    return next((place for place in places if place.exists()), None)


def run(args: argparse.Namespace) -> int:
    example = find_example()
    if example is None:
        print("the example gpt.py is in neither the checkout nor the package", file=sys.stderr)
        return 1
    before = sys.argv
    sys.argv = ["rushlight demo", *args.rest]
    try:
        return runpy.run_path(str(example), run_name="demo")["main"](args.rest)
    except SystemExit as stop:
        return script.status_of(stop)
    finally:
        sys.argv = before
