"""`rushlight run script.py args...`: a program written for PyTorch, unchanged, on Rushlight.

`import torch` and all below it find Rushlight in the program, and in the processes that it starts
through `multiprocessing`.
"""

import argparse
import importlib
import sys
from pathlib import Path

from . import script

NAME = "run"
HELP = "run a script or module that says `import torch` with Rushlight in PyTorch's place"
TORCH_PATH = Path(__file__).with_name("torch_path")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", "--module", action="store_true", help="the program is a module, as in python -m"
    )
    parser.add_argument("program", help="script.py, a folder with __main__.py, or a module (-m)")
    parser.add_argument("program_args", nargs=argparse.REMAINDER, help="options of the program")


def run(args: argparse.Namespace) -> int:
    if not args.module and not Path(args.program).exists():
        print(f"run: there is no file {args.program!r}", file=sys.stderr)
        return 2
    importlib.import_module("rushlight.as_torch")
    sys.path.append(str(TORCH_PATH))
    try:
        return script.run_script(args.program, args.program_args, module=args.module)
    except Exception as error:  # shown as Python shows it, from the program's first line on
        error = error.with_traceback(script.frames_of_program(error))
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
