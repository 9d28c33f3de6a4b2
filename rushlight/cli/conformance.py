"""`rushlight conformance NAME`: the table of what a backend computes, refuses and gets wrong.

The suite is imported by name when the command runs: the other commands do without it.
"""

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = "conformance"
HELP = "run the conformance suite on one backend"
TELL_EVERY = 50


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
    parser.add_argument(
        "--sample", type=int, default=0, metavar="N",
        help="N of the records' cases, always the same ones, in place of all",
    )  # fmt: skip
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
    records = [] if args.templates else suite.all_record_cases(args.sample)
    dtypes = {name for name in args.dtypes.split(",") if name}
    cases = [
        case
        for case in [*suite.template_cases(), *records]
        if args.only in case.name and (not dtypes or case.dtype in dtypes | {""})
    ]
    report = suite.Report(args.backend)
    report.add(suite.check(case, args.backend) for case in told(cases))
    print(report.text())
    if args.write:
        which = ", ".join(sorted(dtypes)) or "all"
        which += f", a sample of {args.sample}" if args.sample else ""
        suite.write_row(Path(args.write), report, which)
    return 1 if report.count("failed") else 0


def told(cases: list[Any]) -> Iterator[Any]:
    """The cases one by one, and now and then a line that says how far they are."""
    for number, case in enumerate(cases):
        if number % TELL_EVERY == 0:
            print(f"{number} of {len(cases)}: {case.name} {case.dtype}", file=sys.stderr)
        yield case
