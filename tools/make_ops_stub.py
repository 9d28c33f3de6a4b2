"""Write rushlight/ops/_generated_names.py: every op by name, for readers and type checkers.

    python tools/make_ops_stub.py            # after a new record
    python tools/make_ops_stub.py --check    # exit 1 if the file is not what would be written

The records are the declaration; the file is derived from them and never edited.
"""

from __future__ import annotations

import argparse
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = ROOT / "rushlight" / "ops" / "_generated_names.py"

# Names that Python uses get an underscore.
RESERVED = frozenset("abs all any complex max min pow range round slice sum".split())

HEAD = '''"""Every op by name. Written by tools/make_ops_stub.py from the records; do not edit."""

from rushlight.ir.opdef import find_op as _op

'''


def public_name(op_name: str) -> str:
    """The name of an op in rushlight.ops."""
    return f"{op_name}_" if op_name in RESERVED else op_name


def names_text(op_names: list[str]) -> str:
    """The whole file."""
    lines = sorted(f'{public_name(name)} = _op("{name}")' for name in op_names)
    return HEAD + "\n".join(lines) + "\n"


def declared_ops() -> list[str]:
    """The names of all records, without the rest of the package.

    The list may be out of date when this runs, and then nothing that uses it can be imported: so
    the package around `ops` and the list itself are stand-ins.
    """
    if "rushlight" not in sys.modules:
        package = types.ModuleType("rushlight")
        package.__path__ = [str(ROOT / "rushlight")]
        sys.modules["rushlight"] = package
        sys.modules["rushlight.ops._generated_names"] = types.ModuleType("_generated_names")
    opdef = __import__("rushlight.ir.opdef", fromlist=["all_ops"])
    __import__("rushlight.ops")
    return list(opdef.all_ops())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the list of the ops by name.")
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args(argv).check
    text = names_text(declared_ops())
    if not check:
        NAMES.write_text(text, encoding="utf-8")
        return 0
    if NAMES.exists() and NAMES.read_text(encoding="utf-8") == text:
        return 0
    print(f"{NAMES.relative_to(ROOT)} is not up to date: run python tools/make_ops_stub.py")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
