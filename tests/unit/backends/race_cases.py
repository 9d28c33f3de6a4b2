"""Runs kinds of tile programs on the OpenCL device there is: race_cases.py [--no-barriers] NAMES.

Used by test_races.py, under a simulator that watches memory.
"""

from __future__ import annotations

import sys

from cfamily_cases import long_scan

from rushlight.backends.opencl.language import OpenCL
from rushlight.testing.conformance import check, template_cases


def main(names: list[str]) -> None:
    if "--no-barriers" in names:
        names.remove("--no-barriers")
        OpenCL.barrier = lambda self: ";"
    cases = {case.name: case for case in [*template_cases(), long_scan()]}
    for name in names:
        outcome = check(cases[name], "opencl")
        print(f"{name}: {outcome.status} {outcome.text}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
