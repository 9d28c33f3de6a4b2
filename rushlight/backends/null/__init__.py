"""The null backend: verifies every program, compiles nothing, runs nothing. For compiler tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS, DType
from rushlight.compiler.target import Backend, Caps, Plan
from rushlight.compiler.tile.ir import Program
from rushlight.compiler.tile.verify import verify_program
from rushlight.ir.symint import Expr

_CAPS = Caps("null", dtypes=frozenset(d.name for d in (*ALL_DTYPES, *BYTE_FLOATS)))


@dataclass(frozen=True, eq=False)
class NullExecutable:
    program: Program
    scratch: tuple[tuple[DType, int | Expr], ...] = ()


class NullPlan:
    """Runs nothing and succeeds: results keep whatever their memory held."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def run(self, pointers: Sequence[int], ints: np.ndarray, numbers: Sequence[Any]) -> int:
        if len(pointers) != len(self.plan.buffers) or len(ints) != len(self.plan.variables):
            raise ValueError(
                f"a plan of {len(self.plan.buffers)} buffers and {len(self.plan.variables)} "
                f"variables got {len(pointers)} and {len(ints)}"
            )
        return 0


def find() -> Caps:
    return _CAPS


def build(programs: Sequence[Program], caps: Caps) -> list[NullExecutable]:
    for program in programs:
        verify_program(program)
    return [NullExecutable(program) for program in programs]


def load(plan: Plan, caps: Caps) -> NullPlan:
    return NullPlan(plan)


BACKEND = Backend("null", find, build, load)

__all__ = ["BACKEND", "NullExecutable", "NullPlan", "build", "find", "load"]
