"""Who makes the products of matrices of a GPU: Triton, or another code generator beside it.

In: a tile program, a chip, the setting max_autotune_gemm_backends. Out: a `Maker` (None: the
backend's own, Triton) and the Decision that `explain` prints. Always true: the first one that is
named and can do it is taken; where a device is present and more than one can, the fastest. Whoever
cannot is left out with its reason, and Triton can always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rushlight.base.config import config
from rushlight.compiler.decisions import Decision
from rushlight.compiler.tile.ir import AttentionGrid, DotGrid, Program
from rushlight.runtime.tuning import Tuned

OWN = "TRITON"
# PyTorch's names -> module that holds MAKER. Its other names are libraries that are not ours.
_MODULES = {
    "CUTLASS": "rushlight.backends.cute.maker",
    "CUTEDSL": "rushlight.backends.cute.maker",
    "NVGEMM": "rushlight.backends.cute.maker",
}


@dataclass(frozen=True)
class Maker:
    """Another maker of kernels.

    refuse(program, chip)  why it cannot make this program; none: it can
    build(program, chip)   what a device launches: `start(gpu, groups, places, words, status, host)`
    text(program, chip)    the kernel, for people
    """

    name: str
    refuse: Callable[[Program, str], Sequence[str]]
    build: Callable[[Program, str], Any]
    text: Callable[[Program, str], str]


# Candidates by name (None: the backend's own) -> which is the fastest.
Measure = Callable[[Mapping[str, "Maker | None"]], Tuned]


def is_product(program: Program) -> bool:
    """Is it what more than one maker may have a kernel for?"""
    return any(isinstance(grid, (DotGrid, AttentionGrid)) for grid in program.grids)


def asked() -> tuple[str, ...]:
    """The makers that the setting names, in order."""
    return tuple(name.strip() for name in config.max_autotune_gemm_backends.split(","))


def choose(
    program: Program, chip: str, own: str, measure: Measure | None = None
) -> tuple[Maker | None, Decision]:
    """Who makes a program for a chip. `own`: what the backend calls itself."""
    able: dict[str, Maker | None] = {}
    reasons = []
    for name in asked():
        if name == OWN:
            able.setdefault(own, None)
        elif name in _MODULES:
            maker: Maker = import_module(_MODULES[name]).MAKER
            why = maker.refuse(program, chip)
            reasons += [f"{maker.name}_cannot: {reason}" for reason in why]
            if not why:
                able.setdefault(maker.name, maker)
    if not able:
        able[own] = None
    first = next(iter(able))
    if len(able) == 1 or measure is None:
        reasons.insert(0, f"first_that_can: of {','.join(asked())}")
        if len(able) > 1:
            reasons.append("not_measured: no device is present, or max_autotune is off")
        return able[first], Decision(first, tuple(reasons))
    tuned = measure(able)
    return able[tuned.name], Decision(tuned.name, (*tuned.reasons(), *reasons))
