"""Executables and plans of the interpreter: addresses become numpy arrays, kernels run in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.backends.interp.run import run_program
from rushlight.base.dtypes import DType
from rushlight.compiler.host_calls import run_host_call, view
from rushlight.compiler.target import Caps, HostCall, KernelCall, Plan
from rushlight.compiler.tile.ir import Program
from rushlight.compiler.tile.verify import verify_program
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import evaluate


@dataclass(frozen=True, eq=False)
class InterpExecutable:
    """A program, verified. It needs no scratch beyond the program's own buffers."""

    program: Program
    scratch: tuple[tuple[DType, int | Expr], ...] = ()

    def run(
        self,
        arrays: Sequence[np.ndarray],
        sizes: Mapping[str, int] | None = None,
        params: Mapping[str, Any] | None = None,
        races: bool = False,
    ) -> int:
        """Run on flat arrays; the status word."""
        return run_program(self.program, arrays, sizes or {}, params or {}, races)


def build(programs: Sequence[Program], caps: Caps) -> list[InterpExecutable]:
    for program in programs:
        verify_program(program)
    return [InterpExecutable(program) for program in programs]


class InterpPlan:
    """A plan that runs in numpy. `races`: check that instances are independent."""

    def __init__(self, plan: Plan, races: bool = False) -> None:
        self.plan, self.races = plan, races

    def run(self, pointers: Sequence[int], ints: np.ndarray, numbers: Sequence[Any]) -> int:
        env = dict(zip(self.plan.variables, (int(i) for i in ints), strict=True))
        arrays = [
            view(int(address), spec.dtype, evaluate(spec.size, env))
            for address, spec in zip(pointers, self.plan.buffers, strict=True)
        ]
        for region in self.plan.regions:
            for call in region:
                if isinstance(call, HostCall):
                    run_host_call(call, self.plan, pointers, env)
                    continue
                status = self._run_kernel(call, arrays, env, numbers)
                if status:
                    return status
        return 0

    def _run_kernel(
        self,
        call: KernelCall,
        arrays: Sequence[np.ndarray],
        env: Mapping[str, int],
        numbers: Sequence[Any],
    ) -> int:
        program = call.executable.program
        sizes = {
            var.name: evaluate(value, env)
            for var, value in zip(program.sizes, call.ints, strict=True)
        }
        params = {
            param.name: numbers[place]
            for param, place in zip(program.params, call.scalars, strict=True)
        }
        own = [arrays[i] for i in call.buffers]
        return run_program(program, own, sizes, params, self.races)
