"""What a workload is, and the list of them.

A workload is a module here with

    TITLE   one line
    cases() -> {case name: dict of options}
    build(torch, **options) -> Case

`build` makes the inputs and gives a `Case`. It uses the PyTorch API only, through the module it is
given; its inputs come from numpy with a fixed seed, so that both frameworks see the same bits.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

NAMES = (
    "gpt_step",
    "gpt_start",
    "mlp",
    "matmul",
    "elementwise",
    "softmax",
    "sdpa",
    "flex",
    "fused_loss",
    "optimizers",
    "sort_scan",
    "cnn",
    "import_time",
)


@dataclass
class Case:
    """One thing to time.

    `run` does the work once and gives its results, tensors or a list of them. `work` is what one
    run does, by unit ("flop" or "byte"), from which the report makes rates. `values` gives what
    """

    run: Callable[[], Any]
    work: dict[str, float] = field(default_factory=dict)
    values: Callable[[Any], Any] | None = None
    tolerance: float = 1e-3
    in_child: bool = False
    most_reps: int | None = None


def load(name: str) -> ModuleType:
    """The module of a workload."""
    return importlib.import_module(f"workloads.{name}")
