"""The public names, and the stored list of those that must stay: tests/arch/public_names.txt.

    python tools/public_names.py            # add new names to the list; it never takes one away
    python tools/public_names.py --check    # exit 1 if a name is new or gone

A program written for one release runs on the next one, so a name leaves the list only by hand, with
an entry in CHANGELOG.md.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "arch" / "public_names.txt"
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

# Modules that users import, with the name that PyTorch's users know them by.
MODULES = (
    "rushlight", "rushlight._C", "rushlight._dynamo", "rushlight._dynamo.config",
    "rushlight._inductor", "rushlight._inductor.config", "rushlight.cpu", "rushlight.distributed",
    "rushlight.distributions", "rushlight.distributions.constraints",
    "rushlight.distributions.transforms", "rushlight.distributions.utils", "rushlight.func",
    "rushlight.futures", "rushlight.fx", "rushlight.hub", "rushlight.library", "rushlight.mps",
    "rushlight.mtia", "rushlight.multiprocessing", "rushlight.onnx", "rushlight.overrides",
    "rushlight.storage", "rushlight.types", "rushlight.utils._pytree", "rushlight.xpu",
    "rushlight.accelerator", "rushlight.attention", "rushlight.autograd", "rushlight.monitor",
    "rushlight.quasirandom",
    "rushlight.compiler", "rushlight.cuda", "rushlight.fft", "rushlight.functional",
    "rushlight.jit",
    "rushlight.linalg", "rushlight.losses", "rushlight.masked",
    "rushlight.nn.attention.flex_attention", "rushlight.nn", "rushlight.nn.functional",
    "rushlight.nn.modules.utils", "rushlight.nn.init", "rushlight.nn.utils",
    "rushlight.nn.utils.rnn", "rushlight.optim", "rushlight.optim.lr_scheduler",
    "rushlight.random", "rushlight.serialization", "rushlight.signal.windows", "rushlight.sparse",
    "rushlight.profiler", "rushlight.special", "rushlight.utils.benchmark",
    "rushlight.utils", "rushlight.utils.checkpoint", "rushlight.utils.data", "rushlight.version",
)  # fmt: skip

# Single public names of modules that are else internal.
SINGLE = ("rushlight.autograd.graph.saved_tensors_hooks",)


def public_names() -> set[str]:
    """Every name that a user may rely on, with its module."""
    found = {f"{name}.{member}" for name in MODULES for member in members(name)} | set(SINGLE)
    tensor = importlib.import_module("rushlight").Tensor
    return found | {f"rushlight.Tensor.{name}" for name in dir(tensor) if not name.startswith("_")}


def members(module_name: str) -> Iterator[str]:
    """What `__all__` says; without it, what the module defines itself."""
    module = importlib.import_module(module_name)
    if hasattr(module, "__all__"):
        yield from module.__all__
        return
    for name, value in vars(module).items():
        if not name.startswith("_") and getattr(value, "__module__", None) == module_name:
            yield name


def find_public(name: str) -> Any:
    """The object of a listed name; AttributeError or ImportError if it is gone."""
    module_name = max((m for m in MODULES if name.startswith(m + ".")), key=len)
    found = importlib.import_module(module_name)
    for part in name[len(module_name) + 1 :].split("."):
        found = getattr(found, part)
    return found


def stored_names() -> list[str]:
    return LIST.read_text(encoding="utf-8").split() if LIST.exists() else []


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Keep the list of public names.")
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args(argv).check
    stored, now = set(stored_names()), public_names()
    for sign, names in (("new", now - stored), ("gone", stored - now)):
        for name in sorted(names):
            print(f"{sign}  {name}")
    if not check:
        LIST.write_text("\n".join(sorted(stored | now)) + "\n", encoding="utf-8")
        return 0
    return 1 if stored != now else 0


if __name__ == "__main__":
    raise SystemExit(main())
