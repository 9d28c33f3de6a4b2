"""build(programs, caps): Triton text, a module, functions. One module for all programs."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily.code import ThreadProgram
from rushlight.backends.cfamily.run import GroupExecutable, GroupPlan
from rushlight.backends.triton.interpret_impl import interpreted, load_interpreted
from rushlight.backends.triton.module_text import lowered, print_module
from rushlight.compiler.target import Caps, Plan
from rushlight.compiler.tile.ir import Program


def build(programs: Sequence[Program], caps: Caps) -> list[GroupExecutable]:
    found = lowered(programs, caps)
    return attach(found, print_module(found))


def lower_text(program: Program, caps: Caps) -> str:
    """The Triton module of a program."""
    return print_module(lowered([program], caps))


def attach(programs: Sequence[ThreadProgram], text: str) -> list[GroupExecutable]:
    kernels = [
        (kernel.name, [m.dtype for m in (*one.program.buffers, *one.scratch)])
        for one in programs
        for kernel in one.kernels
    ]
    functions, found = interpreted(text, kernels), []
    for one in programs:
        mine, functions = functions[: len(one.kernels)], functions[len(one.kernels) :]
        found.append(GroupExecutable(one.program, one, tuple(mine), text, text.encode()))
    return found


def load(plan: Plan, caps: Caps) -> GroupPlan:
    return load_interpreted(plan)
