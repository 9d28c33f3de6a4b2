"""Write tests/unit/tensors/golden.json: texts and promotion rules as PyTorch 2.13 gives them.

    python tools/make_tensor_goldens.py        (in an environment with PyTorch)

The unit tests compare Rushlight with this file, so they need no PyTorch themselves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.tensor_tables import ERRORS, EXPRESSIONS, REPRS, fault, run  # noqa: E402

OUT = ROOT / "tests" / "unit" / "tensors" / "golden.json"
DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
OPERANDS = {
    "dims": "torch.ones(2, dtype=torch.{})", "zero": "torch.ones((), dtype=torch.{})",
    "bool number": "True", "int number": "2", "float number": "2.5",
}  # fmt: skip


def operands() -> list[tuple[str, str]]:
    found = []
    for kind, text in OPERANDS.items():
        if "{}" in text:
            found += [(f"{kind} {d}", text.format(d)) for d in DTYPES]
        else:
            found.append((kind, text))
    return found


def promotion() -> dict[str, str]:
    table = {}
    for _, left in operands():
        if not left.startswith("torch"):
            continue
        for _, right in operands():
            for op in ("+", "/"):
                text = f"{left} {op} {right}"
                table[text] = repr(run(torch, f"({text}).dtype"))
    return table


def values() -> dict[str, str]:
    """The expressions whose printed value is short and exact to four digits."""
    found = {}
    for text in EXPRESSIONS:
        printed = repr(run(torch, text))
        if len(printed) < 600:
            found[text] = printed
    return found


def main() -> None:
    errors = {}
    for text in ERRORS:
        kind, message = fault(torch, text)
        errors[text] = [kind.__name__, message.splitlines()[0]]
    golden = {
        "promotion": promotion(),
        "reprs": {text: repr(run(torch, text)) for text in REPRS},
        "errors": errors,
        "values": values(),
    }
    OUT.write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{OUT}: {[len(v) for v in golden.values()]}")


if __name__ == "__main__":
    main()
