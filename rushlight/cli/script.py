"""Running a script as its own main program, as `python script.py args` would."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


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


def status_of(stop: SystemExit) -> int:
    """The exit status that Python would end with."""
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(stop.code, file=sys.stderr)
    return 1
