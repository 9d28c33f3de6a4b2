"""What a workload is, and the list of them.

A workload is a module here with

    TITLE   one line
    cases() -> {case name: dict of options}
    build(torch, **options) -> Case
    GOALS   {case name: what to reach, as text}, for those that have a goal
    build_jax(jax, **options) -> Case
            and JAX_CASES, names of cases, where JAX is a rival: the same in its style, under `jit`

`build` makes the inputs and gives a `Case`. It uses the PyTorch API only, through the module it is
given; its inputs come from numpy with a fixed seed (`from_numpy`), so that both frameworks see the
same bits.
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
    "weights",
    "elementwise",
    "softmax",
    "sdpa",
    "flex",
    "decode",
    "smollm",
    "fused_loss",
    "optimizers",
    "sort_scan",
    "passes",
    "cnn",
    "growth",
    "overheads",
    "import_time",
    "gpu_compile",
    "packages",
)


@dataclass
class Case:
    """One thing to time.

    run        does the work once; gives its results, a tensor or a list of them
    work       what one run does, by unit ("flop", "byte", "token" ...), for rates; "32 MiB read":
               bytes, where reading so much memory is what it costs (see peak.py)
    values     all values to compare (`--check`), of what a run gave; None: what it gave
    tolerance  of that comparison, relative to the largest value of an array
    in_child   child processes do the work: their memory counts
    most_reps  of a case that takes long
    """

    run: Callable[[], Any]
    work: dict[str, float] = field(default_factory=dict)
    values: Callable[[Any], Any] | None = None
    tolerance: float = 1e-3
    in_child: bool = False
    most_reps: int | None = None


def from_numpy(torch: ModuleType, values: Any) -> Any:
    """A tensor with memory of its own: what numpy can change, a lazy framework has to copy."""
    return torch.from_numpy(values).clone()


def has_jax(workload: str, case: str) -> bool:
    """Is the case written for JAX, too?"""
    return case in getattr(load(workload), "JAX_CASES", ())


def goal(workload: str, case: str) -> str:
    """What a case should reach; empty where nothing was set."""
    return getattr(load(workload), "GOALS", {}).get(case, "")


def load(name: str) -> ModuleType:
    """The module of a workload."""
    return importlib.import_module(f"workloads.{name}")
