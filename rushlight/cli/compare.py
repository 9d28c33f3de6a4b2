"""`rushlight compare model.py --backends llvm,c`: one model on several backends.

The script has a function `make()` that gives (model, inputs), or the names `model` and `inputs`;
`import torch` finds Rushlight in it.
The engine is imported by name when the command runs: the other commands do without it.
"""

import argparse
import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAME = "compare"
HELP = "run a model on several backends: correctness, determinism, speed and memory of each"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", help="defines make() -> (model, inputs), or model and inputs")
    parser.add_argument(
        "--backends", default="llvm,interp", help="names with commas; the first is the measure"
    )
    parser.add_argument("--html", metavar="FILE", help="also write a page")


def run(args: argparse.Namespace) -> int:
    if not Path(args.script).is_file():
        print(f"compare: there is no file {args.script!r}", file=sys.stderr)
        return 2
    tools: Any = importlib.import_module("rushlight.testing.backends")
    registry: Any = importlib.import_module("rushlight.backends")
    names = [name.strip() for name in args.backends.split(",") if name.strip()]
    unknown = [name for name in names if name not in registry.backend_names()]
    if unknown:
        known = ", ".join(registry.backend_names())
        print(f"compare: no backend {unknown[0]!r}; there are: {known}", file=sys.stderr)
        return 2
    sys.path.insert(0, str(Path(args.script).resolve().parent))
    with importlib.import_module("rushlight.names.install").install_as_torch():
        make = maker_of(runpy.run_path(args.script))
        if make is None:
            print(f"compare: {args.script} has neither make() nor model and inputs",
                  file=sys.stderr)  # fmt: skip
            return 2
        seen = tools.compare(make, names)
    print(tools.table(seen))
    if args.html:
        title = f"{Path(args.script).name} on {', '.join(names)}"
        Path(args.html).write_text(tools.page(seen, title), encoding="utf-8")
        print(f"wrote {args.html}")
    return 0 if seen.is_right else 1


def maker_of(names: dict[str, Any]) -> Callable[[], tuple[Any, tuple]] | None:
    """The function that makes the model and its inputs."""
    if "make" in names:
        return names["make"]
    if "model" in names and "inputs" in names:
        inputs = names["inputs"]
        both = names["model"], tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
        return lambda: both
    return None
