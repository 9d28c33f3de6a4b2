"""`rushlight conformance NAME`: the table of what a backend computes, refuses and gets wrong.

The suite is imported by name when the command runs: the other commands do without it.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

NAME = "conformance"
HELP = "run the conformance suite on one backend"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("backend", help="a folder of rushlight/backends")
    parser.add_argument(
        "--only", default="", help="cases whose name holds this text, as in --only softmax"
    )
    parser.add_argument(
        "--templates", action="store_true", help="the kinds of tile programs, not every op record"
    )
    parser.add_argument(
        "--dtypes", default="", help="records of these alone, as in --dtypes float32,int64"
    )
    parser.add_argument("--write", metavar="FILE", help="put the row of this backend into a table")


def run(args: argparse.Namespace) -> int:
    suite: Any = importlib.import_module("rushlight.testing.conformance")
    registry: Any = importlib.import_module("rushlight.backends")
    try:
        caps = registry.find_backend(args.backend).find()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if hasattr(caps, "reason"):
        fix = f" ({caps.fix})" if caps.fix else ""
        print(f"{args.backend} is not here: {caps.reason}{fix}", file=sys.stderr)
        return 1
    cases = suite.template_cases() + ([] if args.templates else suite.all_record_cases())
    dtypes = {name for name in args.dtypes.split(",") if name}
    report = suite.Report(args.backend)
    report.add(
        suite.check(case, args.backend)
        for case in cases
        if args.only in case.name and (not dtypes or case.dtype in dtypes | {""})
    )
    print(report.text())
    if args.write:
        suite.write_row(Path(args.write), report, ", ".join(sorted(dtypes)) or "all")
    return 1 if report.count("failed") else 0
