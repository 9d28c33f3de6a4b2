"""build(programs, caps): Triton text, a module, functions. One module for all programs."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily.code import ThreadProgram
from rushlight.backends.cfamily.run import GroupExecutable, GroupPlan
from rushlight.backends.triton.driver_impl import require_gpu
from rushlight.backends.triton.gpu_impl import attach_to_gpu, load_on_gpu
from rushlight.backends.triton.interpret_impl import interpreted, load_interpreted
from rushlight.backends.triton.module_text import lowered, print_module
from rushlight.base.config import config
from rushlight.compiler.target import Caps, Plan
from rushlight.compiler.tile.ir import Program


def build(programs: Sequence[Program], caps: Caps) -> list[GroupExecutable]:
    found = lowered(programs, caps)
    if config.triton_interpret:
        return attach(found, print_module(found))
    return attach_to_gpu(found, require_gpu())


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
    if config.triton_interpret:
        return load_interpreted(plan)
    return load_on_gpu(plan, require_gpu())
