"""The table of names: each public name of PyTorch 2.13, whether it is there, and what tests it.

Comes in: PyTorch's names (`torch_names.txt`), the op records, and `used_names.tsv`, in how many of
57 public repositories a name is used. Goes out: `Row`s, in the order of those lists. A state is
found by asking for the name, so it is never out of date.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rushlight.names.known import known_names
from rushlight.names.stand_in import StandIn

USED = Path(__file__).with_name("used_names.tsv")
TESTS = Path(__file__).resolve().parents[2] / "tests"
# Rows of the list of used names that PyTorch does not have: other packages' and removed ones.
NOT_PYTORCH = frozenset(
    """torch.npu torch.hpu torch.mlu torch.neuron Module.register_module_
    torch.distributed.DeviceMesh Tensor.index""".split()
)


@dataclass(frozen=True)
class Row:
    """One name. state: "there"; "stand-in": it can be named, and raises when it is called;
    "missing". samples: those of its op record, from which tests are made; files: test files of the
    checkout that use the name; used: repositories that use it."""

    name: str
    state: str
    samples: int = 0
    files: int = 0
    used: int = 0
    note: str = ""


class Missing:
    """What `reach` gives for a name that is not there."""


def reach(name: str) -> tuple[Any, str]:
    """The object of PyTorch's name ("torch.nn.Linear", "Tensor.add"), or Missing and why."""
    root = importlib.import_module("rushlight")
    head, *parts = name.split(".")
    if name.startswith(("Tensor.", "torch.Tensor.")):
        found, path, parts = root.Tensor, "rushlight.Tensor", name.split("Tensor.", 1)[1].split(".")
    else:
        found = {"torch": root, "Module": root.nn.Module}[head]
        path = "rushlight"
    for part in parts:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError as error:
            try:
                found = importlib.import_module(path)
            except ImportError:
                return Missing, str(error)
    return found, ""


def state_of(found: Any) -> str:
    if found is Missing:
        return "missing"
    return "stand-in" if isinstance(found, StandIn) else "there"


@cache
def samples_by_name() -> dict[str, int]:
    """PyTorch's name -> the number of samples of its op record."""
    numpy = importlib.import_module("numpy")
    records = importlib.import_module("rushlight.ir.opdef").all_ops().values()
    counts: dict[str, int] = {}
    for record in records:
        if record.samples is None or not record.torch:
            continue
        count = len(list(record.samples(numpy.random.default_rng(0))))
        counts.update({_full(name): count for name in record.torch})
    return counts


def _full(name: str) -> str:
    """torch.exp, torch.Tensor.exp, torch.nn.functional.softmax."""
    return name if name.startswith("torch.") else f"torch.{name}"


@cache
def files_by_word() -> Counter[str]:
    """In how many test files a word stands; empty where the package is installed without them."""
    found: Counter[str] = Counter()
    for path in TESTS.rglob("*.py"):
        found.update(set(re.findall(r"\w+", path.read_text(encoding="utf-8"))))
    return found


def row(name: str, used: int = 0) -> Row:
    found, note = reach(name)
    files = files_by_word()[name.rpartition(".")[2]]
    full = f"torch.{name}" if name.startswith("Tensor.") else name
    return Row(name, state_of(found), samples_by_name().get(full, 0), files, used, note)


def all_rows() -> Iterator[Row]:
    """A row for each public name of PyTorch."""
    used = dict(used_names())
    for module, names in known_names().items():
        for name in sorted(names):
            full = f"{module}.{name}"
            yield row(full, used.get(full.replace("torch.Tensor.", "Tensor."), 0))


def used_names() -> Iterator[tuple[str, int]]:
    """The names that programs use, with the number of repositories; PyTorch's own only."""
    methods = known_names()["torch.Tensor"]
    for line in USED.read_text(encoding="utf-8").splitlines():
        name, count = line.split("\t")
        attribute = name.removeprefix("Tensor.")
        # `x.name` in a program need not be a tensor's attribute.
        foreign = attribute != name and attribute not in methods and attribute[0] != "_"
        if name not in NOT_PYTORCH and not foreign:
            yield name, int(count)


def used_rows() -> Iterator[Row]:
    for name, count in used_names():
        yield row(name, count)
