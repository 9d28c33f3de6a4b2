"""`rushlight names`: PyTorch's names, which of them are there, and what tests them.

rushlight names                    the table: name, state, tests
rushlight names --summary          the figures: by module, and for the names that programs use
rushlight names --used --missing   of the names that programs use, those that are not there
rushlight names conv               names that hold "conv"
"""

import argparse
import importlib
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

NAME = "names"
HELP = "say which of PyTorch's names are there, and what tests them"
LEAST = (10, 5, 3)  # the list of used names has those of 3 or more
WIDTH = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("part", nargs="?", default="", help="only names that hold this")
    parser.add_argument("--summary", action="store_true", help="figures instead of names")
    parser.add_argument("--used", action="store_true", help="only names that programs use")
    parser.add_argument("--missing", action="store_true", help="only names that are not there")


def run(args: argparse.Namespace) -> int:
    table = importlib.import_module("rushlight.names.table")
    if args.summary:
        print_summary(table)
        return 0
    rows = [
        row
        for row in (table.used_rows() if args.used else table.all_rows())
        if args.part in row.name and not (args.missing and row.state == "there")
    ]
    for row in rows:
        print(line_of(row))
    if not rows:
        print(f"names: no such name holds {args.part!r}", file=sys.stderr)
        return 1
    return 0


def line_of(row: Any) -> str:
    tests = f"{row.samples} samples, {row.files} files" if row.state == "there" else row.note
    return f"{row.name:{WIDTH}s} {row.state:9s} {tests}"


def print_summary(table: Any) -> None:
    """Figures by module of PyTorch, and for the names that programs use."""
    print(f"{'module':{WIDTH}s} {'names':>6s} {'there':>6s} {'stand-in':>8s} {'missing':>8s}")
    by_module: dict[str, list[Any]] = {}
    for row in table.all_rows():
        by_module.setdefault(row.name.rpartition(".")[0], []).append(row)
    for module, rows in by_module.items():
        print(counts(module, rows))
    print(counts("all", [row for rows in by_module.values() for row in rows]))
    used = list(table.used_rows())
    for least in LEAST:
        some = [row for row in used if row.used >= least]
        print(counts(f"used by {least} or more of 57 repositories", some))


def counts(title: str, rows: Iterable[Any]) -> str:
    found = Counter(row.state for row in rows)
    there, stand_in, missing = (found[s] for s in ("there", "stand-in", "missing"))
    return f"{title:{WIDTH}s} {sum(found.values()):6d} {there:6d} {stand_in:8d} {missing:8d}"
