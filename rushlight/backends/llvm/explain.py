"""What people ask of a compiled program: its machine code, and how its grids are run."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rushlight.backends.llvm.attention_sides import sides_of
from rushlight.backends.llvm.build import lower_text
from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.dot import plan_dot
from rushlight.backends.llvm.jit import assembly_of
from rushlight.backends.llvm.schedule_attention import choose_attention_schedule
from rushlight.backends.llvm.types import LlvmExecutable
from rushlight.compiler.decisions import Decision
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import AttentionGrid, DotGrid, Program


def lower_asm(program: Program, caps: Caps) -> str:
    """The machine code of a program as assembly text."""
    return assembly_of(lower_text(program, caps), split_target(caps.features))


def picks(executable: LlvmExecutable, caps: Caps) -> list[Decision]:
    """The schedule of every contraction and attention (where they were measured, with the times),
    and how launches are shared out."""
    target = split_target(caps.features)
    chosen = list(executable.decisions)
    for grid in () if chosen else executable.program.grids:
        if isinstance(grid, DotGrid):
            chosen.append(_shown(plan_dot(grid, target, caps.threads)[1]))
        elif isinstance(grid, AttentionGrid):
            for side in sides_of(grid):
                schedule = choose_attention_schedule(grid, side, target, caps.threads)
                chosen.append(_shown(schedule))
    for launch in executable.launches:
        chosen.append(
            Decision(
                f"{str(launch.instances)} instances",
                (
                    f"{launch.grain} in a unit of work",
                    f"about {str(launch.cost)} operations each",
                    f"vectors of {target.vector_bytes} bytes",
                ),
            )
        )
    return chosen


def _shown(schedule: Any) -> Decision:
    values = ((field.name, getattr(schedule, field.name)) for field in fields(schedule))
    return Decision(type(schedule).__name__, tuple(f"{name}={value}" for name, value in values))
