"""Run the programs of this folder: on Rushlight against the golden values, or on PyTorch to make
them.

    python tests/programs/run.py                     # all programs, compared with golden/*.json
    python tests/programs/run.py gpt2 timm --only generate
    python tests/programs/run.py --quick             # those that are done in a minute
    PYTHON_WITH_TORCH tests/programs/run.py --make   # write golden/*.json, on PyTorch 2.13

Prints a line for each case, a line for each program with its package, and `N passed, N failed` at
the end.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
RTOL, ATOL = 2e-4, 2e-6
QUICK = (
    "einops", "gpt2", "pretrained", "skorch", "torchdiffeq", "idioms_science",
    "idioms_training", "idioms_use", "scripts_tools", "scripts_training",
)  # fmt: skip


def programs() -> list[str]:
    return sorted(path.stem.removeprefix("program_") for path in HERE.glob("program_*.py"))


def cases(module: ModuleType) -> dict[str, Any]:
    return {name[5:]: f for name, f in vars(module).items() if name.startswith("case_")}


def run_case(module: ModuleType, name: str, record: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases(module)[name](record)


@dataclass
class Outcome:
    """What came of a program."""

    name: str
    passed: int
    failed: int
    seconds: float  # of the processor

    def line(self) -> str:
        cases = self.passed + self.failed
        return f"{self.name:16s} {self.passed:3d} of {cases:3d} passed {self.seconds:7.1f} s"


def run_program(name: str, only: str, make: bool) -> Outcome:
    """Run the cases of a program whose name holds `only`."""
    harness = importlib.import_module("harness")
    path = HERE / "golden" / f"{name}.json"
    golden = json.loads(path.read_text()) if path.exists() else {}
    module = importlib.import_module(f"program_{name}")
    passed = failed = 0
    start = time.process_time()
    for case in cases(module):
        if only and only not in case:
            continue
        record, began, lines = harness.Record(), time.process_time(), []
        try:
            run_case(module, case, record)
            if make:
                golden[case] = record.found
            elif case not in golden:
                lines = ["there are no golden values for it"]
            else:
                rtol = getattr(module, "RTOL", {}).get(case, RTOL)
                lines = harness.differences(record.found, golden[case], rtol, ATOL)
        except Exception:
            lines = traceback.format_exc().splitlines()
        passed, failed = passed + (not lines), failed + bool(lines)
        verdict = "FAILED" if lines else "passed"
        print(f"{verdict}  {name:16s} {case:28s} {time.process_time() - began:6.1f} s", flush=True)
        for line in lines:
            print(f"        {line}")
    if make:
        text = json.dumps(golden, separators=(",", ":"))
        path.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")
    return Outcome(name, passed, failed, time.process_time() - start)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run other people's programs.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(programs())}; default: all")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--make", action="store_true", help="write the golden values (PyTorch)")
    args = parser.parse_args(argv)
    sys.path.insert(0, str(HERE))
    if args.make:
        importlib.import_module("harness").declare_torchvision()
    else:
        importlib.import_module("rushlight.as_torch")
    names = args.names or (QUICK if args.quick else programs())
    found = [run_program(name, args.only, args.make) for name in names]
    print()
    for outcome in found:
        print(outcome.line())
    passed, failed = (sum(getattr(o, of) for o in found) for of in ("passed", "failed"))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    raise SystemExit(main())
