"""`rushlight package script.py --out FOLDER`: the kernels of a script, ahead of time.

The script runs here; what it computed is written for a device that need not be here: for Metal,
`.metal` files, a manifest and a script that makes libraries of them on a Mac.

The engine is imported by name when the command runs: the other commands do without it.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from . import script

NAME = "package"
HELP = "run a script and write its kernels for a device that is not here"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", default="metal", help="whose kernels (default: metal)")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where they are written")
    parser.add_argument("script", help="the script to run, which computes on the CPU here")
    parser.add_argument("script_args", nargs=argparse.REMAINDER, help="options of the script")


def run(args: argparse.Namespace) -> int:
    registry: Any = importlib.import_module("rushlight.backends")
    backend = registry.find_backend(args.backend)
    if backend.package is None:
        print(f"package: {args.backend} writes no kernels ahead of time", file=sys.stderr)
        return 2
    if not Path(args.script).is_file():
        print(f"package: there is no file {args.script!r}", file=sys.stderr)
        return 2
    install: Any = importlib.import_module("rushlight.names.install")
    engine: Any = importlib.import_module("rushlight.engine.heard_programs")
    with install.install_as_torch(), engine.heard_programs() as programs:
        status = script.run_script(args.script, args.script_args)
    left_out = backend.package(programs, Path(args.out))
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    print(f"{len(programs) - len(left_out)} programs written to {args.out}")
    return status
