"""What a person may want to know of one kernel of a plan. Kept with the plan, also on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rushlight.compiler.cost import Cost, cost_of
from rushlight.compiler.tile.ir import Program
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import evaluate


@dataclass(frozen=True, eq=False)
class KernelInfo:
    """name: k12; label: what it does; kind: of its group; shape: of its domain.

    ops      the values it computes, by the names of their ops, in order
    lines    user lines that recorded them ("file:line"), when they were kept
    program  as built, with math functions; None for a host function
    ints     one per program size: an int or an Expr over the plan's variables
    """

    name: str
    label: str
    kind: str
    shape: tuple[int | Expr, ...]
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    program: Program | None = None
    ints: tuple[int | Expr, ...] = ()

    def shape_text(self, env: Mapping[str, int]) -> str:
        return "x".join(str(evaluate(size, env)) for size in self.shape) or "1"

    def cost(self, env: Mapping[str, int]) -> Cost:
        """Bytes moved and operations done with these sizes of the plan."""
        if self.program is None:
            return Cost()
        sizes = {
            var.name: evaluate(value, env)
            for var, value in zip(self.program.sizes, self.ints, strict=True)
        }
        return cost_of(self.program, sizes)
