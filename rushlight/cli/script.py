"""Running a script as its own main program, as `python script.py args` would."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import TracebackType


def run_script(path: str, args: list[str], *, module: bool = False) -> int:
    """Run a file, a folder with a `__main__.py`, or (`module`) a module by its name; gives the
    exit status. `sys.argv` and `sys.path` are what they were before, afterwards."""
    argv, search = sys.argv, sys.path[:]
    sys.argv = [path, *args]
    sys.path.insert(0, str(Path.cwd() if module else Path(path).resolve().parent))
    try:
        if module:
            runpy.run_module(path, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(path, run_name="__main__")
    except SystemExit as stop:
        return status_of(stop)
    finally:
        sys.argv, sys.path[:] = argv, search
    return 0


def frames_of_program(error: BaseException) -> TracebackType | None:
    """The error's traceback from the program's first line on: without ours and runpy's.

    None where no line of the program ran (its syntax is wrong).
    """
    ours, trace = str(Path(__file__).parent), error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith((ours, "<frozen runpy>")):
            return trace
        trace = trace.tb_next
    return None


def status_of(stop: SystemExit) -> int:
    """The exit status that Python would end with."""
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(stop.code, file=sys.stderr)
    return 1
